"""The context layer of the article on PyContext: its names and signatures, over our own parts.

Counts are those of a real tokenizer, adding a block costs the same for any number, the order of a
conversation is kept, and what is dropped is listed. See docs/context.md for what differs and why.
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
    start_pilot,
    start_service,
)
from contextrelay.context.distributed import DistributedContextStore
from contextrelay.context.monitoring import MetricsCollector, ProductionMonitor
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
