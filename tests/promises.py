"""Promises: everything Context Relay promises, as data, each with the tests that keep it.

A promise is one of:

    kept      tests keep all of it
    partly    tests keep some of it; `missing` says what is not there
    not yet   nothing keeps it
    changed   we promise something else instead; `why` says what and why

A test names its promise in its docstring ("Promise R9." or "Promises R6, R9: ..."), and a promise
names the tests that prove it best, up to twelve; test_promises.py checks both. `python -m
tests.promises` prints the table, and `python -m tests.promises --tests` every test of a promise.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeGuard

ROOT = Path(__file__).parents[1]

Status = Literal["kept", "partly", "not yet", "changed"]


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise: what it says, in short, and how far it is kept."""

    id: str
    text: str
    status: Status
    tests: tuple[str, ...] = ()
    """Node ids without parameters: "tests/core/test_sweep.py::test_expiry_frees_bytes"."""
    missing: str = ""
    why: str = ""


def kept(id: str, text: str, *tests: str) -> Promise:
    return Promise(id, text, "kept", tests)


def partly(id: str, text: str, *tests: str, missing: str) -> Promise:
    return Promise(id, text, "partly", tests, missing=missing)


def not_yet(id: str, text: str) -> Promise:
    return Promise(id, text, "not yet")


def changed(id: str, text: str, *tests: str, why: str) -> Promise:
    return Promise(id, text, "changed", tests, why=why)


SECTIONS: Mapping[str, tuple[str, range]] = {
    "R": ("Relay: push once, pass a ref", range(1, 16)),
    "E": ("Encryption", range(1, 6)),
    "S": ("Signals", range(1, 7)),
    "T": ("Threads and state", range(1, 12)),
    "A": ("Artifacts", range(1, 6)),
    "L": ("Looking inside a ref without loading it", range(1, 7)),
    "C": ("Capabilities, cache, hops", range(1, 4)),
    "X": ("Running models and agents", range(1, 6)),
    "K": ("Packing a window and handing off", range(1, 9)),
    "J": ("Project files", range(1, 8)),
    "M": ("Protocols", range(1, 4)),
    "H": ("Coding agents", range(1, 6)),
    "I": ("Frameworks", range(1, 2)),
    "G": ("Engines and platforms", range(1, 5)),
    "Z": ("Access and limits", range(5)),
    "U": ("Insight", range(1, 5)),
}
"""The letter of a promise, what it stands for, and the numbers under it."""

PROMISES: tuple[Promise, ...] = (
    # R  Relay
    kept(
        "R1",
        "POST /push takes JSON, also name and type, answers url, id, channel; ids are UUIDv4",
        "tests/client/test_channels.py::test_a_push_signals_the_ref_and_nothing_more",
        "tests/server/test_published.py::test_text_comes_back_as_it_was_pushed",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_push_into_a_thread_is_an_event_of_it",
        "tests/server/routes/test_near_fields.py::test_a_field_that_is_nearly_one_of_ours_is_warned_of",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_push_is_answered_with_url_id_and_channel",
        "tests/server/routes/test_near_fields.py::test_a_push_may_name_and_type_its_content",
        "tests/server/routes/test_near_fields.py::test_a_wrong_name_or_type_is_left_out_and_warned_of",
        "tests/server/routes/test_legacy_contextrelay.py::test_the_url_has_the_public_name_where_there_is_one",
    ),
    kept(
        "R2",
        "a body of any other type is the data itself; bytes that are no UTF-8 come back",
        "tests/server/routes/test_legacy_contextrelay.py::test_any_other_body_is_the_data",
        "tests/server/routes/test_legacy_contextrelay.py::test_bytes_that_are_no_text_come_back_bare",
    ),
    kept(
        "R3",
        "GET /pull answers data and metadata; ?raw=1 the bare bytes, ETag, Range, HEAD",
        "tests/server/test_published.py::test_text_comes_back_as_it_was_pushed",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_pull_of_text_is_the_envelope_as_text",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_quick_answer_has_the_headers_of_an_ordinary_one",
        "tests/server/test_fast_paths.py::test_a_read_answered_inline_is_as_any_other",
        "tests/server/routes/test_legacy_contextrelay.py::test_bare_bytes_have_their_media_type_and_their_hash_as_tag",
        "tests/server/routes/test_legacy_contextrelay.py::test_each_form_of_one_url_has_a_tag_of_its_own",
        "tests/server/routes/test_legacy_contextrelay.py::test_the_envelope_is_the_same_whatever_its_size_and_packing",
    ),
    kept(
        "R4",
        "an unknown or expired ref is a 404 with a fixed text; asked fully, a tombstone",
        "tests/server/test_published.py::test_what_is_not_there_is_an_http_error_with_the_seeds_words",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_gone_ref_says_so_to_a_pull_of_all",
        "tests/server/routes/test_legacy_contextrelay.py::test_what_is_not_there_is_refused_in_the_seeds_words",
    ),
    kept(
        "R5",
        "the texts of 400; odd metadata and channels are ignored",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_bare_push_of_nothing_is_refused",
        "tests/server/routes/test_legacy_contextrelay.py::test_odd_metadata_and_channels_are_ignored",
        "tests/server/routes/test_legacy_contextrelay.py::test_what_is_no_push_is_refused_in_the_seeds_words",
    ),
    kept(
        "R6",
        "leases: a day by default, ttl, pins; expiry frees bytes, leaves a tombstone",
        "tests/client/test_handoffs.py::test_a_handed_ref_does_not_expire",
        "tests/client/test_threads.py::test_what_a_fork_refers_to_outlives_the_thread_it_came_from",
        "tests/client/test_verbs.py::test_a_push_lives_for_a_day_unless_it_says_otherwise",
        "tests/core/artifacts/test_lifetime.py::test_an_artifact_is_gone_the_moment_its_time_is_up_swept_or_not",
        "tests/core/maintenance/test_repair.py::test_a_sweep_that_another_one_overtakes_is_no_error",
        "tests/cli/test_cli.py::test_what_is_gone_exits_with_4_and_says_when_and_why",
    ),
    kept(
        "R7",
        "peek: metadata at a cost that does not grow; the command adds type, size, expiry; full",
        "tests/client/test_outlines.py::test_a_full_peek_has_tokens_and_outline",
        "tests/client/test_verbs.py::test_peek_describes_without_the_body",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_peek_is_the_metadata_alone",
        "tests/cli/test_cli.py::test_peek_as_json_has_what_people_are_shown",
        "tests/cli/test_remote.py::test_push_pull_and_peek",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_full_peek_shows_what_there_is",
    ),
    kept(
        "R8",
        "a body over 50 MiB is refused at once, without reading it all",
        "tests/client/test_verbs.py::test_a_body_over_the_limit_is_refused_without_reading_it_all",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_body_over_the_limit_is_refused",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_body_that_announces_too_much_is_refused_before_it_comes",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_body_that_turns_out_too_long_is_cut_off",
        "tests/security/test_input.py::test_a_body_over_the_limit_is_refused",
        "tests/security/test_input.py::test_a_stream_over_the_limit_is_refused_without_reading_on",
    ),
    kept(
        "R9",
        "equal content is stored once and freed with its last ref",
        "tests/client/test_verbs.py::test_the_same_content_is_kept_once_and_freed_with_its_last_ref",
        "tests/client/test_verbs.py::test_what_was_pushed_comes_back_exactly",
        "tests/core/artifacts/test_bodies.py::test_pushing_and_removing_the_same_content_side_by_side_loses_nothing",
        "tests/crash/test_broken.py::test_a_changed_blob_is_refused_and_named",
        "tests/core/inspect/test_outline.py::test_what_an_outline_quotes_goes_with_the_content",
    ),
    kept(
        "R10",
        "class ContextRelay: push, pull, peek, subscribe, publish; its key stays home",
        "tests/client/test_contextrelay.py::test_a_text_is_pushed_and_pulled_by_its_url",
        "tests/client/test_contextrelay.py::test_a_text_that_is_not_there_is_not_found",
        "tests/client/test_contextrelay.py::test_peek_shows_the_metadata_alone",
        "tests/client/test_contextrelay.py::test_urls_of_the_embedded_store_are_relay_urls",
        "tests/client/test_remote.py::test_a_redirect_is_not_followed_and_leads_no_key_away",
        "tests/cli/test_remote.py::test_the_key_goes_to_the_server_that_was_chosen_and_to_no_other",
    ),
    kept(
        "R11",
        "the TypeError and ValueError texts of ContextRelay",
        "tests/client/test_contextrelay.py::test_what_cannot_be_is_refused_in_the_seeds_words",
    ),
    kept(
        "R12",
        "the published client 0.2.0 works unmodified against our server",
        "tests/server/test_published.py::test_a_sealed_push_is_opened_by_its_key_alone",
        "tests/server/test_published.py::test_a_subscriber_hears_pushes_on_its_channel_and_comes_back_after_a_restart",
        "tests/server/test_published.py::test_its_bridge_carries_a_task_there_and_the_answer_back",
        "tests/server/test_published.py::test_its_mcp_server_pushes_peeks_and_pulls",
        "tests/server/test_published.py::test_text_comes_back_as_it_was_pushed",
        "tests/server/test_published.py::test_what_is_not_there_is_an_http_error_with_the_seeds_words",
    ),
    kept(
        "R13",
        "GET / says that it runs; a browser is sent to /ui/",
        "tests/server/routes/test_status.py::test_the_root_says_what_this_is_and_sends_browsers_to_the_page",
        "tests/cli/test_serve.py::test_it_prints_its_url_once_it_listens_and_ends_well",
    ),
    partly(
        "R14",
        "settings by CONTEXTRELAY_URL, CONTEXTRELAY_API_KEY, RELAY_HOME, RELAY_THREAD",
        "tests/client/test_remote.py::test_a_key_in_the_environment_is_for_the_server_in_it",
        "tests/cli/test_remote.py::test_an_option_goes_before_contextrelay_url_and_that_before_relay_home",
        "tests/cli/test_remote.py::test_push_pull_and_peek",
        "tests/cli/test_remote.py::test_threads_state_and_artifacts",
        "tests/cli/test_threads.py::test_the_variable_counts_more_than_the_current_thread_and_less_than_a_name",
        missing="RELAY_AGENT counts for the command line alone",
    ),
    kept(
        "R15",
        "push_many stores 10,000 refs in one call; 50 MiB stream in flat memory",
        "tests/client/test_verbs.py::test_a_stream_of_the_largest_body_is_never_held_whole",
        "tests/client/test_verbs.py::test_ten_thousand_are_pushed_in_one_call",
    ),
    # E  Encryption
    kept(
        "E1",
        "client-side Fernet with the key in the URL's fragment, never sent to a server",
        "tests/client/test_contextrelay.py::test_an_encrypted_text_is_opened_by_its_url_alone",
        "tests/client/test_seals.py::test_what_was_sealed_comes_back_exactly_and_whole",
        "tests/server/test_published.py::test_a_sealed_push_is_opened_by_its_key_alone",
        "tests/mcp/test_push_pull.py::test_a_sealed_text_is_opened_by_its_url_alone",
        "tests/cli/test_seals.py::test_what_is_pushed_encrypted_comes_back_by_its_url",
        "tests/security/test_seals.py::test_neither_a_word_nor_a_key_is_found_anywhere",
    ),
    kept(
        "E2",
        "a wrong, empty or needless key fails with one text, never with a partial body",
        "tests/client/test_contextrelay.py::test_an_encrypted_text_is_opened_by_its_url_alone",
        "tests/client/test_seals.py::test_without_the_key_nothing_comes",
        "tests/cli/test_seals.py::test_a_wrong_key_prints_nothing_but_why_and_never_the_key",
        "tests/seal/test_stream.py::test_an_empty_slice_still_needs_the_key",
        "tests/seal/test_keys.py::test_what_is_almost_a_key_is_none",
        "tests/security/test_seals.py::test_a_changed_body_brings_nothing_at_all",
    ),
    kept(
        "E3",
        "a signal never carries the key",
        "tests/client/test_channels.py::test_a_push_signals_the_ref_and_nothing_more",
        "tests/client/test_seals.py::test_a_signal_never_carries_the_key",
        "tests/mcp/test_resources.py::test_a_key_in_a_uri_is_not_repeated_in_an_error",
        "tests/cli/test_seals.py::test_a_key_in_the_command_is_noted_and_one_on_stdin_is_not",
        "tests/seal/test_keys.py::test_a_key_does_not_show_itself",
        "tests/security/test_seals.py::test_neither_a_word_nor_a_key_is_found_anywhere",
    ),
    kept(
        "E4",
        "Relay seals in AES-256-GCM chunks: tampering fails, slices open their chunks",
        "tests/client/test_seals.py::test_what_was_sealed_comes_back_exactly_and_whole",
        "tests/cli/test_seals.py::test_what_is_pushed_encrypted_comes_back_by_its_url",
        "tests/documents/test_canonical.py::test_what_is_stored_and_read_again_is_spelled_the_same",
        "tests/seal/test_stream.py::test_the_vectors_hold",
        "tests/seal/test_keys.py::test_what_is_almost_a_key_is_none",
        "tests/security/test_seals.py::test_neither_a_word_nor_a_key_is_found_anywhere",
    ),
    not_yet("E5", "packages, handoffs, exports and backups can be sealed; keys can be rotated"),
    # S  Signals
    kept(
        "S1",
        "a WebSocket gets a frame for each push on its channel; 426 and 400 otherwise",
        "tests/server/test_published.py::test_a_subscriber_hears_pushes_on_its_channel_and_comes_back_after_a_restart",
        "tests/server/streams/test_signals.py::test_a_push_reaches_its_subscribers_as_a_url_that_can_be_pulled",
        "tests/server/streams/test_signals.py::test_what_is_no_upgrade_or_has_no_channel_is_refused",
    ),
    kept(
        "S2",
        "any channel name; isolated; fan-out; a slow subscriber slows nobody",
        "tests/client/test_channels.py::test_channels_are_isolated",
        "tests/client/test_contextrelay.py::test_two_subscribers_both_hear",
        "tests/server/streams/test_signals.py::test_a_channel_has_any_name",
        "tests/server/streams/test_signals.py::test_a_slow_reader_is_cut_off_and_resumes_without_loss",
        "tests/server/streams/test_signals.py::test_one_who_leaves_frees_its_place",
    ),
    kept(
        "S3",
        "pings, keepalive, reconnects with growing delays; callback errors are survived",
        "tests/client/test_contextrelay.py::test_a_callback_hears_of_pushes_in_order_and_of_no_messages",
        "tests/server/test_published.py::test_a_subscriber_hears_pushes_on_its_channel_and_comes_back_after_a_restart",
        "tests/server/streams/test_signals.py::test_frames_of_clients_are_dropped_and_pings_answered",
        "tests/server/connection/test_steadiness.py::test_a_websocket_on_a_used_connection_is_not_ended_by_its_idle_timer",
        "tests/server/streams/test_event_streams.py::test_an_idle_stream_says_that_it_is_there",
        "tests/cli/test_channels.py::test_a_subscriber_outlives_its_server_and_misses_nothing",
        "tests/server/streams/test_signals.py::test_a_subscriber_is_pinged_and_one_that_never_answers_is_let_go",
    ),
    kept(
        "S4",
        "nothing missed: replay after a seq, gaps said, each once and in order",
        "tests/core/test_every_commit.py::test_pushes_side_by_side_are_never_stored_twice",
        "tests/server/test_fast_paths.py::test_pushes_side_by_side_are_pushed_as_one_by_one",
        "tests/server/test_fast_paths.py::test_concurrent_pushes_over_http_are_pushed_as_one_by_one",
        "tests/client/test_channels.py::test_signals_come_in_order_and_each_once",
        "tests/client/test_contextrelay.py::test_nothing_is_missed_when_the_server_is_killed_and_started_again",
        "tests/core/channels/test_channels.py::test_a_channel_keeps_the_newest_signals_and_shows_the_gap",
        "tests/server/streams/test_event_streams.py::test_a_stream_sends_what_a_websocket_sends",
        "tests/store/test_replicated.py::test_a_store_behind_sentinels_and_a_password_outlives_its_master",
        "tests/deploy/test_balancer.py::test_subscribers_of_any_server_hear_what_is_sent_to_another",
    ),
    kept(
        "S5",
        "publish a message without a body; wait by long poll",
        "tests/client/test_contextrelay.py::test_a_callback_hears_of_pushes_in_order_and_of_no_messages",
        "tests/client/test_remote.py::test_a_signal_is_waited_for_at_the_server",
        "tests/cli/test_channels.py::test_what_is_published_is_numbered_waited_for_and_listed",
        "tests/client/test_channels.py::test_a_wait_without_news_ends_with_an_empty_page",
        "tests/client/test_channels.py::test_who_waits_is_woken_by_another_relay",
        "tests/server/streams/test_event_streams.py::test_a_client_and_a_follower_of_one_channel_wait_side_by_side",
    ),
    kept(
        "S6",
        "the bridge: push a task to another agent and wait for its answer",
        "tests/client/test_bridge.py::test_a_command_reads_the_task_and_prints_the_answer",
        "tests/client/test_bridge.py::test_a_task_comes_back_as_its_answer",
        "tests/client/test_bridge.py::test_a_task_that_fails_is_an_error_that_says_how",
        "tests/client/test_bridge.py::test_many_who_wait_get_each_its_own_answer",
        "tests/client/test_bridge.py::test_the_answer_of_an_older_bridge_is_known_by_its_summary",
        "tests/server/test_published.py::test_its_bridge_carries_a_task_there_and_the_answer_back",
    ),
    # T  Threads and state
    partly(
        "T1",
        "thread new, list, show, fork, close, rm, use; by name, prefix or the current one",
        "tests/cli/test_threads.py::test_creating_and_using_set_the_current_thread_and_reading_does_not",
        "tests/cli/test_threads.py::test_each_agent_has_a_current_thread_of_its_own",
        "tests/cli/test_threads.py::test_without_a_current_thread_the_only_open_one_is_used_and_named",
        "tests/cli/test_threads.py::test_without_any_thread_a_write_says_how_to_create_one_and_a_question_creates_one",
        "tests/cli/test_threads.py::test_a_terminal_has_a_current_thread_of_its_own",
        "tests/cli/test_threads.py::test_a_replaced_fact_shows_both_values_and_undo_names_the_thread",
        "tests/client/test_threads.py::test_the_current_thread_of_each_place_is_remembered_and_the_one_before",
        "tests/client/test_names.py::test_a_name_that_two_threads_have_is_ambiguous_and_lists_them",
        "tests/client/test_threads.py::test_a_closed_thread_can_be_read_and_forked_but_not_changed",
        "tests/client/test_threads.py::test_a_removed_thread_is_gone_with_its_artifacts_and_says_so",
        "tests/crash/test_races.py::test_a_sweep_during_the_removal_of_a_thread_does_not_forget_it",
        "tests/cli/test_last_push.py::test_a_terminal_that_got_the_name_of_another_has_a_last_of_its_own",
        "tests/cli/test_last_push.py::test_a_terminal_that_is_made_for_one_command_counts_as_none",
        "tests/cli/test_last_push.py::test_an_agent_with_a_name_has_its_own_last",
        missing="in a pipe, context add and cap invoke do not name their thread",
    ),
    kept(
        "T2",
        "the state's schema, a step may be in progress, checked on each patch; unknown fields kept",
        "tests/state/test_header.py::test_a_step_in_progress_is_among_the_next_in_the_order_of_the_plan",
        "tests/client/test_threads.py::test_a_new_thread_is_at_version_1_with_an_empty_state",
        "tests/core/threads/test_mirror.py::test_an_edit_that_breaks_the_schema_is_refused_and_the_file_stays",
        "tests/server/routes/legacy_relay/test_states.py::test_a_result_that_breaks_the_schema_is_a_422",
        "tests/state/test_schema.py::test_a_new_state_is_empty_at_version_1_and_as_it_must_be",
        "tests/documents/test_changed_paths.py::test_a_place_is_followed_to_where_it_is_in_the_end",
        "tests/documents/test_changed_paths.py::test_what_is_deeper_than_asked_is_reported_at_that_depth",
    ),
    kept(
        "T3",
        "state changes only by JSON Patch: all of RFC 6902, atomic, bounded",
        "tests/server/routes/test_json_patch.py::test_a_bare_list_of_operations_patches_a_state",
        "tests/client/test_threads.py::test_a_patch_makes_the_next_version_and_one_event",
        "tests/core/threads/test_state.py::test_any_prefix_of_a_change_does_no_harm",
        "tests/cli/test_state.py::test_a_patch_comes_from_an_option_a_file_or_stdin",
        "tests/cli/test_threads.py::test_an_artifact_goes_into_a_thread_by_option_or_variable_not_by_last_use",
        "tests/documents/test_values.py::test_what_was_written_is_read",
        "tests/documents/test_patch.py::test_a_patch_is_applied_as_a_whole_or_not_at_all_and_can_be_taken_back",
    ),
    kept(
        "T4",
        "one of N writers wins, the others get Conflict; merge rebases a patch",
        "tests/client/test_thread_travel.py::test_many_hands_on_one_thread_lose_nothing",
        "tests/client/test_threads.py::test_a_patch_against_an_old_version_is_refused_and_shows_what_changed",
        "tests/core/threads/test_state.py::test_sixteen_processes_patch_one_thread_and_lose_nothing",
        "tests/cli/test_state.py::test_a_conflict_exits_with_5_and_says_the_version_and_what_changed",
        "tests/documents/test_rebase.py::test_patches_of_other_places_merge",
        "tests/documents/test_patch.py::test_a_failing_test_is_a_conflict_that_says_what_is_there",
        "tests/store/postgres/test_postgres.py::test_processes_that_open_a_new_store_at_once_write_each_number_once",
        "tests/store/failover/test_killed_masters.py::test_nothing_acknowledged_is_lost_when_sentinels_choose_another_master",
        "tests/store/postgres/test_two_servers.py::test_patches_through_two_servers_make_each_version_once",
        "tests/deploy/test_balancer.py::test_any_server_answers_any_request",
    ),
    kept(
        "T5",
        "every version can be read, compared, restored, forked; patches are what grows",
        "tests/client/test_threads.py::test_every_version_can_be_read_again",
        "tests/core/threads/test_past.py::test_old_versions_are_the_same_in_any_order_and_by_many_at_once",
        "tests/core/maintenance/test_repair.py::test_a_damaged_snapshot_costs_time_and_nothing_else",
        "tests/core/threads/test_state.py::test_a_snapshot_changes_nothing_but_the_time_it_takes",
        "tests/cli/test_state.py::test_every_version_can_be_shown_compared_and_restored",
        "tests/cli/test_threads.py::test_a_fork_begins_with_any_version_and_leaves_the_first_alone",
        "tests/documents/test_diff.py::test_a_name_too_long_for_a_pointer_is_changed_with_what_holds_it",
    ),
    partly(
        "T6",
        "the header: at most 2,048 bytes, with decisions, cut in a fixed order, always the same",
        "tests/client/test_threads.py::test_the_header_is_bounded_and_the_same_for_the_same_state",
        "tests/server/routes/legacy_relay/test_states.py::test_a_header_is_the_same_bytes_and_says_if_it_is_cut",
        "tests/cli/test_state.py::test_piped_and_as_json_a_header_is_its_exact_bytes",
        "tests/state/test_header.py::test_each_list_is_cut_to_its_count_and_what_is_left_out_is_counted",
        "tests/state/test_header.py::test_the_header_of_a_new_state_has_every_field_and_leaves_nothing_out",
        "tests/server/test_relay_client.py::test_states",
        "tests/state/test_header.py::test_a_header_costs_the_same_for_few_facts_and_for_many",
        missing="it is shortened in another order; rendered for a model it is JSON",
    ),
    kept(
        "T7",
        "compaction on patch; older versions stay readable",
        "tests/core/threads/test_state.py::test_compaction_keeps_old_versions_readable",
        "tests/cli/test_state.py::test_compacting_a_state_that_is_short_changes_nothing",
        "tests/state/test_compaction.py::test_equal_neighbours_become_one_that_counts",
        "tests/state/test_compaction.py::test_the_newest_of_equal_neighbours_stays",
        "tests/state/test_schema.py::test_a_reference_that_was_there_before_is_not_looked_up_again",
        "tests/state/test_schema.py::test_a_reference_to_an_artifact_that_is_not_there_is_refused",
    ),
    kept(
        "T8",
        "events, append-only and hash-chained; tail and verify",
        "tests/client/test_capabilities.py::test_a_result_goes_into_the_thread_and_every_invocation_into_its_log",
        "tests/client/test_tails.py::test_a_tail_hears_of_another_process",
        "tests/client/test_threads.py::test_events_are_chained_by_hash",
        "tests/core/threads/test_kinds.py::test_a_step_ends_once_with_its_result_until_it_is_let_run_again",
        "tests/pipelines/test_steps.py::test_steps_pass_refs_and_every_result_is_an_artifact_of_the_run",
        "tests/server/test_relay_client.py::test_events_and_their_tail",
        "tests/server/streams/test_event_streams.py::test_a_thread_has_a_stream_of_its_events",
        "tests/server/routes/legacy_relay/test_threads.py::test_events_come_after_the_one_with_an_id",
        "tests/cli/test_events.py::test_events_are_reported_for_people_as_json_and_line_by_line",
        "tests/runs/test_run.py::test_an_answer_is_an_artifact_an_action_and_one_version",
        "tests/runs/test_run.py::test_every_call_is_kept_with_what_was_sent_and_what_came",
        "tests/runs/test_run.py::test_a_failed_run_changes_no_state_and_lists_what_it_dropped",
    ),
    partly(
        "T9",
        "files that people can open, rebuilt at any time; hand edits can be adopted",
        "tests/core/threads/test_mirror.py::test_a_mirror_follows_the_thread",
        "tests/core/threads/test_mirror.py::test_a_mirror_has_the_state_the_events_and_the_artifacts",
        "tests/core/threads/test_mirror.py::test_a_mirror_is_its_owners_alone",
        "tests/core/threads/test_mirror.py::test_a_mirror_is_rebuilt_whatever_became_of_its_files",
        "tests/core/threads/test_mirror.py::test_files_that_are_not_ours_are_left_alone",
        "tests/cli/test_threads.py::test_the_files_of_a_thread_can_be_read_edited_and_adopted",
        missing="the files are written when asked for, not after each change",
    ),
    kept(
        "T10",
        "export to one zip and import as a new thread, bytes intact",
        "tests/client/test_thread_travel.py::test_a_thread_is_exported_and_imported_as_a_new_one",
        "tests/core/transfer/test_thread_export.py::test_bodies_of_every_kind_come_back_with_their_types",
        "tests/core/transfer/test_thread_export.py::test_three_hundred_versions_are_the_same_at_every_one",
        "tests/cli/test_export_import.py::test_a_thread_goes_out_and_comes_back_with_its_history_and_bytes",
        "tests/security/test_archives.py::test_what_is_changed_below_is_otherwise_fine",
        "tests/core/artifacts/test_parts.py::test_a_long_body_goes_out_and_in_with_its_thread",
    ),
    kept(
        "T11",
        "the REST of seed 002, field by field: relay's own client works on it unmodified",
        "tests/server/test_relay_client.py::test_events_and_their_tail",
        "tests/server/test_relay_client.py::test_reports",
        "tests/server/test_relay_client.py::test_a_missing_or_wrong_token",
        "tests/server/routes/legacy_relay/test_states.py::test_a_patch_that_is_no_json_is_a_400",
        "tests/server/test_relay_client.py::test_threads",
        "tests/server/test_relay_client.py::test_a_patch_that_fails",
        "tests/server/routes/test_status.py::test_health_is_reported",
        "tests/server/routes/test_status.py::test_the_root_says_what_this_is_and_sends_browsers_to_the_page",
        "tests/server/openapi/test_openapi.py::test_head_options_and_other_methods_behave_on_every_path",
        "tests/server/routes/legacy_relay/test_artifacts.py::test_artifacts_are_listed_newest_first_and_the_rest_is_counted",
        "tests/server/routes/legacy_relay/test_threads.py::test_the_story_of_the_seed",
    ),
    # A  Artifacts
    kept(
        "A1",
        "types, sha256, provenance; lineage can be followed both ways",
        "tests/client/test_verbs.py::test_lineage_is_followed_both_ways",
        "tests/documents/test_bounds.py::test_a_json_value_is_read_back_exactly",
        "tests/content/test_artifact_type.py::test_a_media_type_that_was_given_decides_and_is_kept",
        "tests/content/test_description.py::test_a_large_body_is_not_held",
        "tests/content/test_description.py::test_any_chunking_gives_the_same_description",
        "tests/content/test_sniff.py::test_a_quote_that_is_never_closed_is_text",
    ),
    kept(
        "A2",
        "the preview: a defused head of at most 2,048 bytes, cut at a line end with a line `...`",
        "tests/server/test_relay_client.py::test_artifacts",
        "tests/content/test_preview.py::test_a_long_text_is_cut_at_a_line_end",
        "tests/content/test_preview.py::test_a_head_that_ends_inside_a_character_is_no_error",
        "tests/content/test_preview.py::test_a_letter_is_not_cut_from_its_mark",
        "tests/content/test_preview.py::test_a_line_end_cut_in_two_by_the_head_is_not_shown_as_hidden",
        "tests/content/test_preview.py::test_a_long_line_is_cut_between_characters",
        "tests/content/test_preview.py::test_a_preview_that_is_not_truncated_is_the_whole_defused_text",
    ),
    kept(
        "A3",
        "previews are defused and labelled; the stored content is untouched",
        "tests/core/artifacts/test_bodies.py::test_a_stored_body_is_untouched_by_what_its_preview_hides",
        "tests/cli/test_stats.py::test_nothing_in_a_thread_shapes_its_markdown_report",
        "tests/content/untrusted/test_defuse.py::test_a_known_phrase_is_replaced_in_every_disguise",
        "tests/content/untrusted/test_fence.py::test_a_fence_says_that_it_is_data_and_its_source",
        "tests/content/test_preview.py::test_a_phrase_across_the_cut_is_not_shown_in_part",
    ),
    kept(
        "A4",
        "POST artifacts as JSON or multipart; 406, 404 and 413",
        "tests/server/routes/legacy_relay/test_artifacts.py::test_what_is_no_json_is_an_invalid_request_body",
        "tests/server/test_relay_client.py::test_content_over_50_mib_is_refused",
        "tests/server/routes/legacy_relay/test_artifacts.py::test_a_file_in_a_form_becomes_an_artifact",
        "tests/server/routes/legacy_relay/test_artifacts.py::test_bytes_travel_in_json_as_base64",
        "tests/server/routes/legacy_relay/test_artifacts.py::test_content_in_json_becomes_an_artifact",
        "tests/server/routes/legacy_relay/test_artifacts.py::test_fields_may_come_after_the_content_and_go_before_what_it_says",
        "tests/server/routes/legacy_relay/test_artifacts.py::test_json_that_is_no_artifact_is_refused",
        "tests/server/routes/legacy_relay/test_artifacts.py::test_a_form_is_read_alike_however_it_is_cut",
    ),
    kept(
        "A5",
        "content never goes into a prompt by default: preview and ref do",
        "tests/client/test_verbs.py::test_peek_describes_without_the_body",
        "tests/runs/test_run.py::test_what_a_model_is_sent_is_bounded_and_ends_with_the_words",
        "tests/client/test_handoffs.py::test_a_thread_is_packed_within_its_budget_with_reasons",
    ),
    # L  Looking inside
    kept(
        "L1",
        "outlines of JSON, code, markdown, logs, tables, diffs and HTML",
        "tests/client/test_outlines.py::test_an_outline_shows_the_shape_its_cost_and_the_next_step",
        "tests/core/inspect/test_outline.py::test_an_outline_is_made_once_for_a_content_and_kept_with_it",
        "tests/content/outline/test_kinds.py::test_fields_that_have_no_room_are_named_at_the_end",
        "tests/content/outline/test_kinds.py::test_files_of_a_diff_that_have_no_room_are_named_at_the_end",
        "tests/cli/test_outlines.py::test_the_outline_is_on_stdout_and_its_cost_on_stderr",
        "tests/fuzz/test_bodies.py::test_hostile_bodies_are_looked_into_within_bounds",
        "tests/content/outline/test_fitting.py::test_anything_is_outlined_and_digested_within_the_budget_and_alike_each_time",
        "tests/content/outline/test_kinds.py::test_json_is_outlined_by_keys_types_counts_ranges_and_samples",
        "tests/content/outline/test_logs.py::test_the_format_is_shown_once_and_messages_whole",
    ),
    kept(
        "L2",
        "slices by lines, bytes, tokens, pointer, path, rows, heading, symbol; bounded",
        "tests/client/test_slices.py::test_each_way_gives_its_piece",
        "tests/core/inspect/test_slice.py::test_a_slice_of_a_large_body_does_not_read_it_all",
        "tests/server/routes/test_slices.py::test_a_wrong_combination_is_a_clear_400",
        "tests/cli/test_get.py::test_the_piece_is_on_stdout_and_what_it_cost_on_stderr",
        "tests/fuzz/test_bodies.py::test_hostile_bodies_are_looked_into_within_bounds",
        "tests/content/outline/test_languages.py::test_a_symbol_is_taken_from_its_first_line_to_its_last",
    ),
    partly(
        "L3",
        "grep without blow-up, several patterns, by record; ranked search, diff of two refs",
        "tests/content/grep/test_match.py::test_a_pattern_of_a_whole_long_line_is_found",
        "tests/content/grep/test_match.py::test_plain_texts_are_found_where_patterns_would_find_them",
        "tests/content/grep/test_records.py::test_a_value_comes_before_what_only_has_its_words",
        "tests/content/grep/test_records.py::test_the_best_has_all_the_room_there_is",
        "tests/client/test_search.py::test_a_hit_says_where_to_slice_and_the_slice_has_it",
        "tests/client/test_search.py::test_in_one_ref_the_place_that_has_all_words_as_they_are_comes_first",
        "tests/client/test_slices.py::test_a_pattern_is_found_in_a_ref_a_thread_and_everything",
        "tests/core/search/test_search.py::test_what_expired_or_was_removed_never_appears",
        "tests/core/inspect/test_slice.py::test_what_is_damaged_or_sealed_does_not_stop_a_grep_through_all",
        "tests/cli/test_doctor.py::test_a_search_index_that_is_behind_is_reported",
        "tests/cli/test_get.py::test_grep_goes_through_everything_or_a_thread",
        "tests/cli/test_get.py::test_of_several_patterns_the_best_matches_come_first",
        missing="a search does not say whether it covered all that was acknowledged before it",
    ),
    kept(
        "L4",
        "the same through SDK, command line, HTTP, MCP and page; sealed in the client",
        "tests/client/test_outlines.py::test_an_outline_shows_the_shape_its_cost_and_the_next_step",
        "tests/client/test_search.py::test_a_hit_says_where_to_slice_and_the_slice_has_it",
        "tests/client/test_slices.py::test_each_way_gives_its_piece",
        "tests/server/routes/test_slices.py::test_a_piece_is_asked_for_in_the_query",
        "tests/mcp/test_inspect.py::test_every_kind_of_piece_is_read_without_loading_the_rest",
        "tests/web/test_artifact.py::test_lines_come_two_hundred_at_a_time",
        "tests/web/test_artifact.py::test_a_body_is_searched_by_pattern_and_by_words",
        "tests/cli/test_get.py::test_each_option_gives_its_piece",
    ),
    kept(
        "L5",
        "every answer counts its tokens, and those of the whole, into the ledger",
        "tests/client/test_outlines.py::test_an_outline_shows_the_shape_its_cost_and_the_next_step",
        "tests/client/test_savings.py::test_a_peek_counts_as_its_preview_each_time_and_the_whole_once",
        "tests/client/test_savings.py::test_every_look_is_counted_and_what_is_pulled_is_taken_off",
        "tests/mcp/test_push_pull.py::test_what_is_counted_as_read_is_what_the_model_saw",
        "tests/client/test_slices.py::test_a_piece_shows_what_it_cost_and_how_to_go_on",
        "tests/cli/test_stats.py::test_stats_show_what_was_counted_with_it_over_all_commands",
        "tests/cli/test_outlines.py::test_the_outline_is_on_stdout_and_its_cost_on_stderr",
    ),
    kept(
        "L6",
        "digest: head, tail, error lines and outline within a token budget",
        "tests/client/test_outlines.py::test_a_digest_has_head_tail_and_errors",
        "tests/content/outline/test_fitting.py::test_a_digest_has_head_tail_errors_and_outline",
        "tests/content/outline/test_fitting.py::test_an_error_has_its_place_in_the_smallest_digest",
        "tests/content/outline/test_fitting.py::test_anything_is_outlined_and_digested_within_the_budget_and_alike_each_time",
        "tests/content/outline/test_fitting.py::test_where_no_line_is_short_enough_the_digest_is_the_outline",
    ),
    # C  Capabilities
    kept(
        "C1",
        "a registry of capabilities: search and fetch built in, one's own by decorator",
        "tests/client/test_capabilities.py::test_a_result_is_an_artifact_with_its_preview",
        "tests/client/test_remote.py::test_a_page_that_cannot_be_fetched_is_asked_for_once",
        "tests/core/capabilities/test_invoke.py::test_what_is_built_in_cannot_be_replaced_and_what_is_ones_own_can",
        "tests/server/test_relay_client.py::test_capabilities",
        "tests/server/routes/legacy_relay/test_threads.py::test_capabilities_are_listed_and_invoked",
        "tests/cli/test_cap.py::test_cap_list_shows_what_can_be_invoked",
        "tests/access/test_public_addresses.py::test_what_is_never_reached",
    ),
    kept(
        "C2",
        "results are cached by canonical arguments, with ttl, hit counts and purge",
        "tests/client/test_capabilities.py::test_a_result_is_an_artifact_with_its_preview",
        "tests/client/test_capabilities.py::test_the_same_arguments_in_another_order_are_answered_from_the_cache",
        "tests/core/access/test_tenants.py::test_a_tenant_does_not_learn_how_often_others_were_answered_from_the_cache",
        "tests/server/routes/legacy_relay/test_threads.py::test_capabilities_are_listed_and_invoked",
        "tests/cli/test_cap.py::test_cap_invoke_prints_the_ref_of_the_result",
        "tests/pipelines/test_steps.py::test_a_capability_is_invoked_and_its_cached_result_is_taken",
        "tests/pipelines/test_steps.py::test_results_of_prompts_are_cached_by_content_and_commands_only_where_it_says_so",
        "tests/core/capabilities/test_invoke.py::test_a_result_is_there_a_day_for_who_was_answered_last_from_the_cache",
    ),
    kept(
        "C3",
        "hops are counted and limited to 50 a thread; idempotency keys are honoured",
        "tests/core/test_every_commit.py::test_a_verb_is_done_once_or_not_at_all",
        "tests/client/test_capabilities.py::test_the_fifty_first_hop_is_refused_cached_or_not",
        "tests/core/capabilities/test_invoke.py::test_hops_are_counted_on_after_a_snapshot",
        "tests/core/test_idempotency.py::test_asked_twice_with_a_key_it_is_done_once_and_answered_the_same",
        "tests/core/test_idempotency_races.py::test_two_at_once_do_it_once_and_are_answered_the_same",
        "tests/server/routes/test_legacy_contextrelay.py::test_a_retried_push_with_its_key_happens_once",
        "tests/cli/test_cap.py::test_a_thread_has_its_results_its_figures_and_its_limit",
    ),
    # X  Running
    kept(
        "X1",
        "relay run: a bounded bundle to a provider; the answer is kept; dry runs repeat",
        "tests/cli/test_run.py::test_an_answer_that_breaks_off_ends_its_line",
        "tests/core/runs/test_runs.py::test_a_run_that_is_finished_twice_under_a_key_is_one",
        "tests/core/runs/test_runs.py::test_an_answer_is_refused_where_the_state_moved_on_and_that_is_asked",
        "tests/runs/test_bundle.py::test_stable_parts_come_first_and_the_question_last",
        "tests/runs/test_run.py::test_an_answer_is_an_artifact_an_action_and_one_version",
        "tests/runs/test_run.py::test_every_call_is_kept_with_what_was_sent_and_what_came",
        "tests/client/test_run_stream.py::test_a_stream_that_is_closed_keeps_what_came",
        "tests/client/test_run_stream.py::test_a_cancelled_task_keeps_what_came",
        "tests/runs/test_files.py::test_a_model_lists_and_reads_tracked_files_each_stored_as_a_ref",
        "tests/cli/test_run.py::test_words_in_one_argument_are_a_prompt",
        "tests/runs/test_bundle_size.py::test_a_bundle_of_10_000_facts_is_as_long_as_one_of_20",
        "tests/runs/test_together.py::test_runs_at_once_are_all_answered_each_with_a_version_of_its_own",
    ),
    partly(
        "X2",
        "anthropic, openai, ollama; retries, streaming, tools to look into refs",
        "tests/cli/test_run.py::test_the_setting_is_that_of_your_own_home_where_the_thread_is_on_a_server",
        "tests/runs/providers/test_real_model.py::test_a_real_model_answers_piece_by_piece_and_is_counted",
        "tests/security/test_tracked_files.py::test_an_index_that_names_files_outside_of_the_folder_is_not_believed",
        "tests/security/test_records.py::test_arguments_nested_too_deep_are_an_error_for_the_model",
        "tests/security/test_providers.py::test_a_reply_without_end_takes_neither_memory_nor_time_without_end",
        "tests/runs/providers/test_account.py::test_without_a_key_the_ways_on_are_named",
        "tests/runs/providers/test_faults.py::test_a_stream_cut_in_a_tool_call_is_an_error_and_is_not_asked_again",
        "tests/runs/providers/test_key_stays.py::test_a_key_is_in_no_store_no_event_no_output_and_no_error",
        "tests/runs/providers/test_llm.py::test_a_model_of_llm_answers_and_calls_tools",
        "tests/runs/providers/test_scripted.py::test_an_answer_comes_in_pieces_and_whole",
        "tests/runs/providers/test_wire.py::test_what_is_stable_is_marked_for_the_cache",
        "tests/runs/test_own_prices.py::test_a_run_is_priced_by_its_owners_prices",
        missing="retries against the vendors' servers",
    ),
    partly(
        "X3",
        "wrap any LLM command line; exec any command, output to a ref, status kept",
        "tests/content/test_output_digest.py::test_an_error_line_is_shown_before_both_ends",
        "tests/runs/wrap/test_llm_command.py::test_llm_itself_is_wrapped_and_asked_as_a_model",
        "tests/runs/wrap/test_exec.py::test_what_was_stored_is_found_after_relay_itself_was_killed",
        "tests/runs/wrap/test_exec.py::test_a_short_output_is_printed_as_it_is_and_stored",
        "tests/runs/wrap/test_exec.py::test_a_long_output_becomes_a_digest_within_its_tokens",
        "tests/runs/wrap/test_exec.py::test_a_missing_or_unusable_command_is_a_clear_error",
        "tests/core/artifacts/test_parts.py::test_parts_are_one_body_for_every_read",
        "tests/runs/wrap/test_agents.py::test_an_agent_gets_the_bundle_and_its_answer_is_stored",
        "tests/runs/wrap/test_agents.py::test_the_bundle_goes_in_as_the_agent_takes_it",
        "tests/runs/wrap/test_agents.py::test_known_agents_are_called_so_that_they_answer_once",
        "tests/runs/wrap/test_agents.py::test_a_failed_agent_changes_no_state_and_what_it_said_is_kept",
        "tests/runs/wrap/test_real_agents.py::test_a_real_agent_is_sent_the_bundle_and_its_answer_is_kept",
        missing="exec with 200 KB of output within 5 times an empty Python",
    ),
    partly(
        "X4",
        "pipelines in YAML: parallel, retried, cached, resumed after a crash",
        "tests/pipelines/test_language.py::test_a_pipeline_is_read_with_all_that_it_says",
        "tests/pipelines/test_values.py::test_what_comes_next_follows_from_what_was",
        "tests/core/threads/test_kinds.py::test_threads_of_a_kind_are_listed_by_it_alone_and_are_never_the_current_one",
        "tests/pipelines/test_steps.py::test_steps_pass_refs_and_every_result_is_an_artifact_of_the_run",
        "tests/pipelines/test_runs.py::test_a_step_waits_until_somebody_decides_and_says_who",
        "tests/pipelines/test_commands.py::test_a_run_prints_a_line_a_step_and_its_end",
        "tests/pipelines/test_hostile.py::test_a_step_that_prints_very_much_is_kept_whole",
        "tests/pipelines/test_examples.py::test_a_repository_is_reviewed_file_by_file_and_the_reviews_merged",
        "tests/pipelines/test_dask.py::test_steps_run_on_workers_and_only_refs_travel",
        "tests/pipelines/test_tokens.py::test_ten_steps_over_a_document_send_little_of_what_pasting_would",
        "tests/crash/test_pipelines.py::test_a_run_killed_at_random_moments_ends_as_an_undisturbed_one",
        "tests/pipelines/test_retry.py::test_what_depends_on_a_step_is_run_again_and_nothing_else",
        missing="what forks from a function without Python is ended with the run, not its step; "
        "a decision by a signal has the name that the signal gives",
    ),
    kept(
        "X5",
        "traces as a tree and as OpenTelemetry; byte-identical replay",
        "tests/runs/test_replay_tools.py::test_a_note_that_would_get_another_id_diverges",
        "tests/runs/test_replay_tools.py::test_notes_of_several_rounds_among_those_of_others_hold",
        "tests/security/test_records.py::test_a_record_that_cannot_be_read_ends_no_page_and_no_replay",
        "tests/security/test_records.py::test_an_exchange_of_very_many_texts_makes_no_huge_page",
        "tests/runs/test_trace.py::test_a_trace_shows_what_a_run_did_call_by_call",
        "tests/runs/test_trace.py::test_a_trace_says_how_a_run_ended_or_that_it_did_not",
        "tests/runs/tracing/test_runs.py::test_whatever_stands_in_an_event_makes_a_trace",
        "tests/runs/tracing/test_runs.py::test_events_of_no_run_or_of_one_that_nobody_began_are_passed_over",
        "tests/cli/test_trace.py::test_a_trace_is_shown_as_a_tree",
        "tests/core/threads/test_copies.py::test_every_version_of_a_copy_is_the_same_but_for_its_id",
        "tests/runs/test_replay.py::test_a_replay_by_the_record_ends_in_the_same_state_and_calls_nothing",
        "tests/cli/test_replay.py::test_a_replay_by_the_record_is_shown",
    ),
    # K  Packing
    kept(
        "K1",
        "blocks and packages, round-tripping in JSON and protobuf",
        "tests/cli/test_handoff.py::test_a_package_goes_to_another_thread_by_file",
        "tests/packing/test_pack.py::test_a_package_carries_its_hash_and_one_that_was_changed_is_refused",
        "tests/packing/test_pack.py::test_what_else_a_package_shows",
        "tests/context/test_article.py::test_a_package_of_a_later_version_is_read_as_far_as_it_is_known",
        "tests/context/test_sessions.py::test_a_session_comes_back_from_json_and_protobuf",
        "tests/packing/test_pack.py::test_half_a_character_is_refused",
    ),
    kept(
        "K2",
        "contextrelay.context: the published names, signatures, defaults and texts",
        "tests/context/test_sessions.py::test_an_unknown_session_is_an_error_in_the_articles_words",
        "tests/context/test_sessions.py::test_every_name_of_the_article_is_there_with_its_defaults",
        "tests/context/test_agents.py::test_a_pilot_takes_its_share_and_reports_both_sides",
        "tests/context/test_agents.py::test_an_agent_asks_its_model_with_its_session",
        "tests/context/test_article.py::test_add_format_score_optimise_shrink_and_move_in_one_go",
        "tests/context/test_distributed.py::test_a_session_is_shared_whole_and_expires",
    ),
    kept(
        "K3",
        "pruning at 0.9 to 0.8 of the real budget; SYSTEM and order kept; recoverable",
        "tests/client/test_handoffs.py::test_blocks_are_added_and_the_least_relevant_pruned",
        "tests/cli/test_handoff.py::test_a_context_is_packed_scored_shown_and_pruned",
        "tests/packing/test_pack.py::test_a_budget_that_the_system_alone_breaks_is_refused",
        "tests/packing/test_pack.py::test_never_over_budget_nothing_lost_and_the_order_kept",
        "tests/context/test_article.py::test_a_budget_of_nothing_is_refused_everywhere",
        "tests/context/test_sessions.py::test_a_full_session_is_pruned_to_80_percent_and_says_what_went",
    ),
    kept(
        "K4",
        "adding a block costs the same at block 10 and at block 100,000",
        "tests/core/packing/test_pack.py::test_a_kept_index_packs_as_a_new_one_whatever_changed",
        "tests/core/packing/test_pack.py::test_packing_again_makes_no_new_index",
        "tests/packing/test_pack.py::test_an_index_that_is_kept_gives_the_same_package",
        "tests/packing/test_relevance.py::test_an_index_that_grew_says_what_a_new_one_says",
        "tests/packing/test_relevance.py::test_places_that_were_left_are_taken_again_and_nothing_old_shows",
        "tests/context/test_sessions.py::test_adding_never_looks_at_what_is_there",
        "tests/context/test_sessions.py::test_relevance_is_an_index_that_follows_changes",
    ),
    kept(
        "K5",
        "pack: never over budget, deterministic, cache-friendly, with reasons",
        "tests/client/test_handoffs.py::test_a_thread_is_packed_within_its_budget_with_reasons",
        "tests/mcp/test_handoffs.py::test_a_thread_is_packed_for_a_model_within_its_budget",
        "tests/cli/test_handoff.py::test_a_context_is_packed_scored_shown_and_pruned",
        "tests/packing/test_pack.py::test_never_over_budget_nothing_lost_and_the_order_kept",
        "tests/packing/test_relevance.py::test_another_word_for_the_same_finds_a_block_and_counts_less",
        "tests/packing/test_relevance.py::test_the_answer_of_a_question_is_worth_more_than_what_came_before_it",
        "tests/context/test_sessions.py::test_decay_does_not_compound",
    ),
    kept(
        "K6",
        "inline, once or by ref: whichever is cheapest with prompt caching",
        "tests/core/accounting/test_pull_rates.py::test_what_is_shown_as_a_ref_and_then_read_is_counted_by_kind_and_size",
        "tests/packing/test_pack.py::test_a_large_block_is_shown_by_what_stands_in_for_it",
        "tests/packing/test_inline_or_ref.py::test_small_and_exempt_messages_are_sent_in_full",
        "tests/packing/test_inline_or_ref.py::test_the_choice_is_the_cheapest_way",
        "tests/core/accounting/test_pull_rates.py::test_rates_are_kept_from_one_process_to_the_next",
        "tests/core/accounting/test_pull_rates.py::test_the_choice_follows_what_this_store_measured",
    ),
    partly(
        "K7",
        "handoffs: give, accept, list, why; the receiver sees the same bytes",
        "tests/client/test_handoff_files.py::test_a_file_is_taken_in_a_store_that_never_heard_of_it",
        "tests/client/test_handoff_waking.py::test_the_receiver_wakes_at_once_and_reads_the_same_bytes",
        "tests/client/test_handoffs.py::test_a_handoff_is_taken_as_it_was_given",
        "tests/core/packing/test_handoffs.py::test_a_crash_leaves_a_handoff_whole_or_not_at_all",
        "tests/mcp/test_handoffs.py::test_a_handoff_goes_from_one_model_to_another_and_back",
        "tests/cli/test_handoff.py::test_a_handoff_is_given_and_taken_by_its_ref",
        "tests/a2a/test_asking.py::test_two_relays_hand_a_task_back_and_forth_by_refs",
        "tests/a2a/test_asking.py::test_a_handoff_is_given_by_the_command_line_to_an_agent_elsewhere",
        missing="no lease and no token; release and next are not there",
    ),
    kept(
        "K8",
        "memory optimizer, concurrency limits, and the telecom example end to end",
        "tests/context/test_sessions.py::test_memory_is_saved_and_the_whole_stays_in_the_relay",
        "tests/context/test_sessions.py::test_one_at_a_time_in_a_session_and_so_many_in_all",
        "tests/context/test_agents.py::test_the_telecom_service_passes_one_session_from_agent_to_agent",
        "tests/context/test_article.py::test_locks_are_held_by_session_as_the_article_does_it",
        "tests/context/test_distributed.py::test_an_agent_on_another_server_goes_on_with_the_session",
    ),
    # J  Project files
    kept(
        "J1",
        "project init writes four files from templates and keeps what is there",
        "tests/project/test_commands.py::test_a_day_of_work_from_init_to_finish",
        "tests/project/test_project.py::test_existing_files_are_kept_and_overwritten_only_by_force_after_a_backup",
    ),
    kept(
        "J2",
        "todos: fields, transitions, review after a day, both file shapes",
        "tests/project/test_commands.py::test_todos_are_blocked_unblocked_cancelled_and_archived",
        "tests/project/test_project.py::test_a_review_lists_overdue_stale_and_stuck_todos_and_archives",
        "tests/project/test_thread.py::test_no_number_is_used_again_after_a_restore",
        "tests/project/test_todos.py::test_a_command_allows_these_transitions_and_no_others",
        "tests/project/test_todos.py::test_next_todos_are_ready_and_ordered_by_priority",
    ),
    kept(
        "J3",
        "decisions are appended, never edited",
        "tests/project/test_decisions.py::test_a_new_decision_is_appended_and_nothing_else_changes",
        "tests/project/test_decisions.py::test_the_published_template_is_read",
        "tests/project/test_decisions.py::test_any_text_makes_one_decision",
        "tests/project/test_documents.py::test_a_decision_whose_number_is_taken_gets_the_next_one",
    ),
    kept(
        "J4",
        "start gives the brief under a budget; finish writes everything atomically",
        "tests/mcp/test_projects.py::test_a_session_begins_works_and_ends_by_tools_alone",
        "tests/project/test_commands.py::test_the_brief_for_people_and_for_models",
        "tests/project/test_crashes.py::test_a_finish_that_is_killed_at_any_step_is_done_or_undone",
        "tests/project/test_project.py::test_a_project_is_found_from_any_folder_below",
        "tests/project/test_commands.py::test_finish_asks_on_a_terminal",
        "tests/project/test_brief.py::test_a_brief_has_project_state_todos_and_relevant_decisions",
    ),
    kept(
        "J5",
        "parent and child hand over through state.json; no writer loses a change",
        "tests/mcp/test_projects.py::test_a_task_goes_to_a_child_and_back",
        "tests/project/test_commands.py::test_a_conflict_is_written_shown_and_settled",
        "tests/project/test_heartbeat.py::test_at_most_five_todos_are_taken_the_most_urgent_first",
        "tests/project/test_crashes.py::test_an_edit_saved_after_a_crash_is_merged_with_the_journal",
        "tests/project/test_project.py::test_fields_changed_since_the_brief_are_merged_or_recorded_as_conflicts",
        "tests/project/test_crashes.py::test_an_edit_saved_at_any_step_of_a_finish_is_kept",
    ),
    kept(
        "J6",
        "files are the truth: edits taken, unknown fields kept, broken files named",
        "tests/project/test_commands.py::test_the_doctor_names_the_problem_and_the_next_step",
        "tests/project/test_crashes.py::test_a_file_that_is_invalid_after_a_crash_is_named_and_not_touched",
        "tests/project/test_crashes.py::test_an_edit_saved_at_any_step_of_a_finish_is_kept",
        "tests/project/test_thread.py::test_every_change_is_one_patch_and_each_field_a_fact",
        "tests/project/test_broken_files.py::test_a_missing_file_is_named_and_created_when_it_is_needed",
        "tests/security/test_project_links.py::test_what_is_a_link_is_named_with_the_next_step",
        "tests/project/test_documents.py::test_a_change_keeps_the_style_of_the_file",
    ),
    kept(
        "J7",
        "ships as an Agent Skill",
        "tests/project/test_skill.py::test_the_script_needs_only_python_and_makes_the_same_files",
        "tests/project/test_skill.py::test_the_skill_is_valid_and_has_the_trigger_words",
    ),
    # M  Protocols
    kept(
        "M1",
        "MCP over stdio and HTTP: tools, resources, actionable errors; conformant",
        "tests/mcp/test_threads.py::test_operations_may_come_as_json_text",
        "tests/mcp/conformance/test_conformance.py::test_every_scored_scenario_passes",
        "tests/mcp/test_claude.py::test_claude_code_lists_us_as_connected",
        "tests/mcp/test_docs.py::test_the_command_in_the_docs_starts_the_server",
        "tests/mcp/test_handoffs.py::test_a_handoff_goes_from_one_model_to_another_and_back",
        "tests/mcp/test_keys.py::test_a_tool_does_what_its_callers_key_allows",
        "tests/mcp/test_messages.py::test_lines_that_are_no_messages_are_answered_and_serving_goes_on",
        "tests/mcp/test_projects.py::test_a_session_begins_works_and_ends_by_tools_alone",
        "tests/mcp/test_prompts.py::test_arguments_are_completed",
        "tests/mcp/test_resources.py::test_signals_of_a_channel_are_read_and_listened_to",
        "tests/mcp/test_sessions.py::test_a_session_begins_with_initialize_and_ends_when_it_is_deleted",
        "tests/mcp/test_toolset.py::test_the_tools_cost_a_model_little",
    ),
    kept(
        "M2",
        "A2A: card, messages, streams, tasks, artifacts by ref; conformant",
        "tests/a2a/test_serving.py::test_each_agent_has_a_card_and_the_first_one_is_at_the_well_known_place",
        "tests/a2a/test_serving.py::test_a_message_becomes_a_task_which_is_a_thread_of_that_kind",
        "tests/a2a/test_kit.py::test_every_requirement_of_the_compatibility_kit_is_met",
        "tests/a2a/test_push_notifications.py::test_updates_are_sent_with_what_the_client_asked_for_and_signed",
        "tests/a2a/test_several.py::test_what_a_killed_server_did_not_send_the_next_one_sends_once",
        "tests/a2a/test_several.py::test_a_cancel_at_any_process_of_a_server_reaches_the_agent",
        "tests/a2a/test_command_lines.py::test_a_real_agent_answers_by_a2a",
        "tests/a2a/test_stale.py::test_a_kept_connection_that_is_gone_costs_nothing_that_was_asked",
        "tests/a2a/test_streamed.py::test_a_task_that_only_its_updates_name_is_found",
        "tests/a2a/test_grpc_asking.py::test_an_agent_that_offers_grpc_alone_is_asked",
        "tests/a2a/test_asking.py::test_an_answer_becomes_artifacts_of_the_thread",
        "tests/a2a/test_sdk.py::test_the_client_of_the_sdk_talks_to_us",
    ),
    kept(
        "M3",
        "OpenAPI 3.1 of everything, with a page; problem+json errors; 401 in the seeds' words, 403",
        "tests/server/test_fast_paths.py::test_a_large_json_body_is_taken_as_a_small_one",
        "tests/server/test_fast_paths.py::test_a_server_answers_as_the_store_does",
        "tests/server/test_fast_paths.py::test_wrong_values_are_refused_alike_here_and_over_http",
        "tests/server/test_relay_client.py::test_a_missing_or_wrong_token",
        "tests/server/connection/test_auth.py::test_every_route_needs_a_caller_but_those_about_the_server_itself",
        "tests/server/connection/test_auth.py::test_clients_raise_the_error_class_of_the_status",
        "tests/server/openapi/test_openapi.py::test_every_verb_is_an_operation_of_its_name",
        "tests/server/openapi/test_generated.py::test_a_generated_python_client_does_what_ours_does",
        "tests/server/routes/test_json_patch.py::test_a_bare_list_of_operations_patches_a_state",
        "tests/server/routes/test_schema_values.py::test_a_fraction_of_zero_is_an_integer_in_a_body",
        "tests/verbs/test_query.py::test_what_is_sent_is_what_arrives",
        "tests/server/openapi/test_openapi.py::test_everything_that_is_answered_is_documented_and_nothing_else",
        "tests/server/openapi/test_schemathesis.py::test_no_request_gets_an_answer_that_is_not_documented",
    ),
    # H  Coding agents
    not_yet("H1", "install and uninstall for five agents: a diff first, byte-identical after"),
    not_yet("H2", "hooks that brief, digest, save and hand off, and never break the agent"),
    not_yet("H3", "discover says what refs would have saved in past transcripts, honestly"),
    kept(
        "H4",
        "prime prints what an agent starts with, under a budget",
        "tests/project/test_skill.py::test_a_primer_is_within_its_budget_and_names_what_is_left_out",
        "tests/project/test_skill.py::test_prime_has_the_brief_of_the_current_project",
    ),
    not_yet("H5", "recall over past sessions of all agents; hand-off and conversion"),
    # I  Frameworks
    not_yet("I1", "ten frameworks, one file each, tested against the real framework"),
    # G  Engines and platforms
    kept(
        "G1",
        "embedded SQLite and files, no daemon, many processes, no network unasked",
        "tests/client/test_public_names.py::test_a_client_needs_no_network_and_no_heavy_module",
        "tests/crash/test_full.py::test_a_full_disk_refuses_pushes_and_still_reads_and_removes",
        "tests/crash/test_kill.py::test_nothing_acknowledged_is_lost_when_writers_are_killed",
        "tests/crash/test_kill.py::test_nothing_acknowledged_is_lost_when_writers_to_a_bucket_are_killed",
        "tests/crash/test_power.py::test_nothing_acknowledged_is_lost_when_the_power_goes",
        "tests/crash/test_schema.py::test_a_store_of_the_first_schema_opens_with_all_it_holds",
        "tests/crash/test_turns.py::test_sixteen_processes_commit_to_one_log_and_none_starves",
        "tests/security/test_unfinished_restore.py::test_a_process_killed_at_every_commit_loses_no_later_push",
    ),
    partly(
        "G2",
        "Redis, Valkey, PostgreSQL and object stores by URL; one suite for all",
        "tests/core/test_commit_prefixes.py::test_any_prefix_of_a_scenario_does_no_harm",
        "tests/server/streams/test_signals.py::test_a_push_into_one_server_reaches_the_subscribers_of_another",
        "tests/store/postgres/test_postgres.py::test_nobody_sees_a_number_before_those_under_it",
        "tests/store/postgres/test_killed_drafts.py::test_a_draft_that_lost_its_pieces_in_a_crash_is_not_kept",
        "tests/store/failover/test_killed_bodies.py::test_every_acknowledged_body_survives_the_kill_of_its_engine",
        "tests/store/objects/test_objects.py::test_an_upload_that_a_crash_cut_off_is_swept",
        "tests/cli/test_doctor.py::test_a_full_disk_under_postgresql_is_a_failure_and_reads_and_removals_go_on",
        "tests/store/test_replicated.py::test_a_write_that_no_replica_has_is_not_confirmed_and_is_done_once",
        "tests/store/failover/test_killed_masters.py::test_nothing_acknowledged_is_lost_when_sentinels_choose_another_master",
        "tests/store/failover/test_partition.py::test_what_is_replicated_outlives_a_partition_and_what_is_not_is_lost",
        "tests/store/failover/test_slots.py::test_slots_that_move_under_load_lose_nothing",
        "tests/deploy/test_rolling.py::test_servers_of_two_versions_are_one_relay_while_one_replaces_the_other",
        missing="GCS is untested",
    ),
    kept(
        "G3",
        "migrate, backup, restore, verify, gc",
        "tests/client/test_verbs.py::test_a_backup_brings_everything_back",
        "tests/crash/test_races.py::test_what_was_removed_from_a_thread_long_ago_is_no_damage",
        "tests/cli/test_cli.py::test_the_store_is_made_listed_swept_verified_backed_up_and_restored",
        "tests/store/objects/test_objects.py::test_a_backup_goes_to_a_store_with_another_place",
        "tests/core/transfer/test_migrate.py::test_everything_moves_to_another_engine_and_back",
        "tests/core/transfer/test_migrate.py::test_a_further_pass_takes_what_came_and_went_meanwhile",
        "tests/core/transfer/test_migrate.py::test_a_migration_that_stops_after_any_write_goes_on",
        "tests/core/transfer/test_migrate.py::test_a_migration_that_was_killed_goes_on",
        "tests/core/transfer/test_migrate.py::test_a_source_that_is_written_to_all_the_time_leaves_the_target_locked",
        "tests/core/transfer/test_migrate.py::test_a_store_that_is_in_use_is_no_target",
        "tests/core/transfer/test_migrate.py::test_large_bodies_pass_through_a_little_at_a_time",
    ),
    partly(
        "G4",
        "Linux and macOS, Python 3.11+; four scripts; a single-file build",
        "tests/test_app.py::test_one_file_is_all_it_takes",
        missing="macOS was never tried",
    ),
    # Z  Access and limits
    partly(
        "Z0",
        "one identity of an agent everywhere; a key's name cannot be claimed",
        "tests/client/test_identity.py::test_the_agent_of_a_client_is_recorded_with_all_that_it_does",
        "tests/client/test_identity.py::test_the_agent_of_an_awaited_client_is_recorded",
        "tests/client/test_identity.py::test_on_a_server_the_key_comes_first_and_cannot_be_claimed",
        "tests/client/test_identity.py::test_a_server_without_keys_records_the_name_given_or_the_user",
        "tests/client/test_identity.py::test_you_is_displayed_and_never_recorded",
        "tests/client/test_identity.py::test_an_invalid_name_of_an_agent_is_refused",
        "tests/client/test_identity.py::test_two_valid_keys_of_a_space_have_different_names",
        "tests/client/test_identity.py::test_keys_of_an_earlier_version_get_names_of_their_own",
        missing="savings are recorded under the author of an artifact, not under its reader",
    ),
    kept(
        "Z1",
        "loopback by default; tokens, scopes, expiry, revocation, quotas",
        "tests/server/connection/test_header_white_space.py::test_white_space_behind_a_header_is_no_part_of_its_value",
        "tests/client/test_keys.py::test_a_key_is_made_listed_and_revoked",
        "tests/core/access/test_callers.py::test_every_verb_is_answered_to_the_scopes_that_reach_it_and_to_no_other",
        "tests/core/packing/test_handoffs.py::test_a_key_for_a_channel_alone_takes_what_is_given_there_and_sees_no_more",
        "tests/core/access/test_keys.py::test_a_token_is_found_by_itself_and_by_nothing_like_it",
        "tests/core/accounting/test_pull_rates.py::test_a_tenant_has_rates_of_its_own",
        "tests/core/access/test_tenants.py::test_a_limited_key_sends_no_signal_by_a_detour",
        "tests/deploy/test_balancer.py::test_the_rate_of_a_key_is_that_of_all_servers_together",
    ),
    kept(
        "Z2",
        "Host checked but for the port of a loopback name, Origin exactly; headers; sandboxed HTML",
        "tests/web/test_browser.py::test_what_a_reader_cannot_see_of_an_opened_seal_is_spelled",
        "tests/server/routes/test_legacy_contextrelay.py::test_pushed_html_can_do_nothing_in_a_browser",
        "tests/server/connection/test_hosts.py::test_a_loopback_name_with_any_port_is_this_server",
        "tests/server/streams/test_signals.py::test_a_foreign_host_or_origin_does_not_get_in",
        "tests/server/test_published.py::test_a_subscriber_comes_back_through_a_forwarded_port",
        "tests/cli/test_stats.py::test_a_page_is_alone_strict_and_escaped",
        "tests/security/test_http.py::test_the_port_that_goes_without_saying_may_be_said_or_not",
        "tests/web/test_artifact.py::test_somebodys_html_goes_only_into_a_frame_in_which_nothing_runs",
        "tests/web/test_entry.py::test_a_key_lets_in_by_a_cookie_that_no_script_and_no_other_site_can_use",
        "tests/web/test_frame.py::test_a_page_may_load_nothing_but_what_is_ours",
        "tests/web/test_home.py::test_a_key_for_some_threads_is_shown_nothing_of_the_others",
        "tests/web/test_screens.py::test_nobody_follows_what_they_may_not_see",
    ),
    partly(
        "Z3",
        "every input has a bound; past it a clear 4xx, never a crash, hang or 500",
        "tests/runs/tracing/test_runs.py::test_whatever_stands_in_an_event_makes_a_trace",
        "tests/runs/tracing/test_runs.py::test_one_run_is_bounded_and_what_is_left_out_is_counted",
        "tests/runs/tracing/test_runs.py::test_many_runs_at_once_are_bounded",
        "tests/cli/test_trace.py::test_a_url_that_is_none_is_refused",
        "tests/core/threads/test_mirror.py::test_a_pipe_in_place_of_the_state_is_not_waited_for",
        "tests/server/test_metrics.py::test_what_clients_make_up_does_not_become_a_label",
        "tests/server/openapi/test_schemathesis.py::test_no_request_gets_an_answer_that_is_not_documented",
        "tests/server/streams/test_signals.py::test_a_channel_or_place_that_cannot_be_is_refused",
        "tests/server/connection/test_steadiness.py::test_much_json_is_not_made_into_much_more",
        missing="inputs of doors that do not exist yet",
    ),
    kept(
        "Z4",
        "refs cannot be guessed or listed; no input reaches outside the store",
        "tests/core/access/test_callers.py::test_a_tenant_sees_and_changes_nothing_of_another",
        "tests/core/access/test_keys.py::test_an_admin_of_a_tenant_looks_after_its_keys_alone",
        "tests/core/threads/test_mirror.py::test_a_folder_that_is_a_link_is_not_written_through",
        "tests/core/access/test_tenants.py::test_whatever_a_tenant_does_a_stranger_sees_and_changes_nothing_of_it",
        "tests/server/connection/test_auth.py::test_a_channel_of_one_tenant_is_not_heard_by_another",
        "tests/cli/test_cli.py::test_pull_to_a_file_is_whole_or_absent_and_replaces_a_link",
        "tests/security/test_project_links.py::test_whatever_is_a_link_nothing_outside_is_read_written_or_deleted",
    ),
    # U  Insight
    partly(
        "U1",
        "stats: the published formula, and next to it the honest ledger",
        "tests/client/test_savings.py::test_savings_are_shared_out_by_day_agent_and_source",
        "tests/client/test_savings.py::test_agents_past_a_number_are_one_share",
        "tests/client/test_savings.py::test_an_estimate_is_corrected_once_somebody_has_counted",
        "tests/client/test_savings.py::test_every_look_is_counted_and_what_is_pulled_is_taken_off",
        "tests/server/test_relay_client.py::test_reports",
        "tests/cli/test_stats.py::test_stats_have_the_rows_of_the_seed_and_say_that_they_are_an_estimate",
        "tests/content/test_tokens.py::test_counts_are_those_of_the_tokenizer",
        "tests/client/test_threads.py::test_stats_follow_the_formula_of_the_seed",
        missing="what people, traces, replays, reports and exports read counts as well",
    ),
    kept(
        "U2",
        "report in three formats; demo, offline in seconds; doctor",
        "tests/cli/test_demo.py::test_for_people_the_demo_draws_and_says_what_to_do_next",
        "tests/cli/test_demo.py::test_the_demo_shows_savings_time_travel_and_a_wake_up_in_seconds",
        "tests/cli/test_doctor.py::test_another_contextrelay_on_the_path_of_python_is_named",
        "tests/cli/test_stats.py::test_a_page_is_alone_strict_and_escaped",
        "tests/cli/test_stats.py::test_a_report_shows_everything_in_markdown_and_is_an_event",
        "tests/cli/test_doctor.py::test_a_shared_engine_that_is_all_right_has_no_failure",
        "tests/cli/test_doctor.py::test_a_password_that_is_refused_is_one_failure",
        "tests/cli/test_doctor.py::test_missing_rights_are_one_failure_with_the_grants",
        "tests/cli/test_doctor.py::test_a_store_of_a_newer_version_is_one_failure",
        "tests/cli/test_doctor.py::test_a_bucket_that_is_gone_is_a_failure",
        "tests/cli/test_doctor.py::test_an_engine_that_forgets_or_has_another_time_is_a_failure",
        "tests/cli/test_doctor.py::test_a_replicated_store_without_a_replica_is_a_failure",
    ),
    kept(
        "U3",
        "the page: every screen offline, by keyboard, with a JSON twin",
        "tests/web/test_browser.py::test_what_a_reader_cannot_see_of_an_opened_seal_is_spelled",
        "tests/cli/test_ui.py::test_it_prints_an_address_that_lets_in_once_and_ends_well",
        "tests/web/test_artifact.py::test_lines_come_two_hundred_at_a_time",
        "tests/web/test_browser.py::test_every_screen_is_readable_by_everybody_and_runs_nothing_of_others",
        "tests/web/test_entry.py::test_a_code_lets_one_in_as_the_owner_and_once",
        "tests/web/test_frame.py::test_what_is_sent_to_a_browser_is_small",
        "tests/web/test_home.py::test_an_empty_store_is_shown_the_commands_that_fill_it",
        "tests/web/test_screens.py::test_a_channel_is_replayed_from_any_point_and_published_to",
        "tests/client/test_savings.py::test_savings_are_shared_out_by_day_agent_and_source",
        "tests/client/test_threads.py::test_threads_are_listed_by_name_state_and_agent",
        "tests/client/test_verbs.py::test_what_expires_soon_is_listed_soonest_first",
        "tests/web/test_thread.py::test_a_version_is_shown_with_what_changed_and_what_the_model_sees",
    ),
    kept(
        "U4",
        "Prometheus, OpenTelemetry, and benchmarks with plots",
        "tests/server/test_metrics.py::test_a_process_that_takes_the_place_of_a_dead_one_counts_on",
        "tests/server/test_metrics.py::test_requests_are_counted_by_route_method_and_status",
        "tests/server/test_metrics.py::test_each_process_gives_the_sum_of_all",
        "tests/server/test_metrics.py::test_what_clients_make_up_does_not_become_a_label",
        "tests/server/test_metrics.py::test_who_listens_is_counted_while_listening",
        "tests/context/test_benchmark.py::test_the_context_benchmark_measures_both_ways_and_draws_them",
        "tests/server/test_spans.py::test_every_request_is_a_span_with_its_route_verb_and_status",
        "tests/server/test_spans.py::test_a_span_is_part_of_its_callers_trace",
        "tests/server/test_spans.py::test_the_last_spans_are_sent_when_a_server_ends",
        "tests/server/test_spans.py::test_a_server_whose_receiver_is_not_there_serves_on",
        "tests/server/test_spans.py::test_no_spans_are_made_where_there_is_no_receiver_for_them",
    ),
)

ID = r"[A-Z]\d{1,2}"
NAMED = re.compile(rf"\bPromises?\s+({ID}(?:(?:\s*,\s*and\s+|\s*,\s*|\s+and\s+){ID})*)\b")


@dataclass(frozen=True, slots=True)
class NamedTest:
    """A test as its file spells it: where it is and which promises its docstring names."""

    node_id: str
    line: int
    promises: tuple[str, ...]


def promises_named(docstring: str) -> tuple[str, ...]:
    """The ids after "Promise" or "Promises", each once, in order."""
    named = (id for match in NAMED.finditer(docstring) for id in re.findall(ID, match[1]))
    return tuple(dict.fromkeys(named))


def tests_in(path: str, text: str) -> Iterator[NamedTest]:
    """Every test function in a file, without importing it."""
    yield from _tests_under(ast.parse(text, path), path)


def _tests_under(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[NamedTest]:
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from _tests_under(child, f"{prefix}::{child.name}")
        elif _is_test(child):
            named = promises_named(ast.get_docstring(child) or "")
            yield NamedTest(f"{prefix}::{child.name}", child.lineno, named)


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return is_function and node.name.startswith("test_")


def all_tests() -> dict[str, NamedTest]:
    """Every test of the project by node id."""
    found: dict[str, NamedTest] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        found |= {test.node_id: test for test in tests_in(name, path.read_text())}
    return found


def main(arguments: list[str]) -> None:
    tests_by_promise: dict[str, list[str]] = defaultdict(list)
    for test in all_tests().values():
        for id in test.promises:
            tests_by_promise[id].append(test.node_id)
    letter = ""
    for promise in PROMISES:
        if promise.id[0] != letter:
            letter = promise.id[0]
            print(f"\n{letter}  {SECTIONS[letter][0]}")
        print(f"  {promise.id:<4} {promise.status:<8} {promise.text}")
        if promise.missing or promise.why:
            print(f"                {promise.missing or promise.why}")
        if "--tests" in arguments:
            for node_id in tests_by_promise[promise.id]:
                print(f"                {node_id}")
    counts = Counter(promise.status for promise in PROMISES)
    print("\n" + ", ".join(f"{count} {status}" for status, count in counts.most_common()))


if __name__ == "__main__":
    main(sys.argv[1:])
