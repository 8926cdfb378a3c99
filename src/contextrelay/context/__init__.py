"""The context layer of the PyContext article: its names and signatures, on top of our own modules.

Tokens are counted by a real tokenizer, adding a block takes constant time, conversations keep their
order, and dropped blocks are listed. docs/context.md describes the differences and their reasons.
"""

from __future__ import annotations

from contextrelay.context.agents import (
    ContextAwareAgent,
    ContextAwareIntentAgent,
    ContextAwareTechnicalAgent,
)
from contextrelay.context.benchmarks import BenchmarkResult, ContextBenchmark
from contextrelay.context.blocks import (
    ContextBlock,
    ContextMetrics,
    ContextPackage,
    ContextType,
    DroppedContext,
)
from contextrelay.context.coordination import (
    AgentCoordinator,
    ContextConcurrencyManager,
    MetricsCollector,
    ProductionMonitor,
    start_pilot,
    start_service,
)
from contextrelay.context.distributed import DistributedContextStore
from contextrelay.context.sessions import ContextManager
from contextrelay.context.window_optimizer import (
    ContextMemoryOptimizer,
    ContextualRelevanceCalculator,
    ContextWindowOptimizer,
    RealTimeContextOptimizer,
)

__all__ = [
    "AgentCoordinator",
    "BenchmarkResult",
    "ContextAwareAgent",
    "ContextAwareIntentAgent",
    "ContextAwareTechnicalAgent",
    "ContextBenchmark",
    "ContextBlock",
    "ContextConcurrencyManager",
    "ContextManager",
    "ContextMemoryOptimizer",
    "ContextMetrics",
    "ContextPackage",
    "ContextType",
    "ContextWindowOptimizer",
    "ContextualRelevanceCalculator",
    "DistributedContextStore",
    "DroppedContext",
    "MetricsCollector",
    "ProductionMonitor",
    "RealTimeContextOptimizer",
    "start_pilot",
    "start_service",
]
