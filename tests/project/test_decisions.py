"""Decisions: sections are read in the usual spellings, and only ever appended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contextrelay.project.changes import NewDecision
from contextrelay.project.decisions import append_decision, read_decisions

SEED = """# Architecture Decision Records
## ADR-001: Use JWT for Authentication
- Date: 2026-04-15
- Status: Accepted
- Context: Need a stateless authentication scheme
- Decision: Use JWT + refresh tokens
- Consequences: Must handle token expiration and revocation
## ADR-002: Choose PostgreSQL as Primary Database
- Date: 2026-04-16
- Status: Accepted
- Context: Need support for complex queries and transactions
- Decision: Use PostgreSQL
- Consequences: Must learn PostgreSQL-specific syntax
"""


def test_the_published_template_is_read() -> None:
    """Promise J3."""
    first, second = read_decisions(SEED)

    assert (first.id, first.title) == ("ADR-001", "Use JWT for Authentication")
    assert (first.date, first.status) == ("2026-04-15", "Accepted")
    assert first.context == "Need a stateless authentication scheme"
    assert second.consequences == "Must learn PostgreSQL-specific syntax"
    assert second.line == 8


def test_a_new_decision_is_appended_and_nothing_else_changes() -> None:
    """Promise J3."""
    new = NewDecision("Use TLS", context="two\n\nlines", supersedes="1")

    text, id = append_decision(SEED, new, "2026-05-01")

    assert id == "ADR-003"
    assert text.startswith(SEED)
    assert text.endswith(
        "\n\n## ADR-003: Use TLS\n- Date: 2026-05-01\n- Status: Accepted\n- Supersedes: ADR-001\n"
        "- Context: two\n\n  lines\n- Decision: Use TLS\n- Consequences:\n"
    )
    old, _, new = read_decisions(text)
    assert (old.superseded_by, old.status) == (3, "Accepted")
    assert new.context == "two\n\nlines"


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
    st.booleans(),
)
def test_any_text_makes_one_decision(
    title: str, context: str, newline: str, mark: str, has_end: bool
) -> None:
    """Promise J3."""
    text = mark + SEED.replace("\n", newline)
    text = text if has_end else text.rstrip("\r\n")

    new = NewDecision(f"t{title}", f"Accepted\n## ADR-9: {context}", context)

    changed, id = append_decision(text, new, "2026-05-01")

    assert changed.startswith(text.rstrip("\r\n"))
    assert changed.endswith("\n") == has_end
    assert ("\r\n" in changed) == (newline == "\r\n")
    assert [each.id for each in read_decisions(changed)] == ["ADR-001", "ADR-002", id]
