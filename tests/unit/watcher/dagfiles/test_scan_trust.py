"""When a scan is believed: a row for every sentence, each a story of scans. `+` is believed, `-` is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.watcher.dagfiles.trust import FilesFound, FolderOutage, ScanTrust

OUTAGE = FolderOutage("no such folder")


def files(readable, listed=None):
    return FilesFound(listed=readable if listed is None else listed, readable=readable)


STORIES = {
    "an outage is never believed, however long it lasts": [(OUTAGE, "-")] * 9,
    "a process that has believed nothing takes what it is given": [(files(3), "+")],
    "a half-mounted folder at the start is taken as well": [(files(1, listed=100), "+"), (files(100), "+")],
    "an empty folder at the start is believed on the fourth scan and left alone": [
        *[(files(0), "-")] * 3,
        *[(files(0), "+")] * 5,
    ],
    "files of which none reads at the start: the same": [*[(files(0, listed=7), "-")] * 3, (files(0, listed=7), "+")],
    "files that read after an empty start are believed at once": [(files(0), "-"), (files(5), "+")],
    "one broken file among many is about the code": [(files(10), "+"), (files(9, listed=10), "+")],
    "half of the files is enough": [(files(10), "+"), *[(files(5), "+")] * 5],
    "less than half is not": [(files(10), "+"), (files(4), "-")],
    "less than half of an odd number": [(files(7), "+"), (files(4), "+"), (files(3), "-")],
    "files that are listed and refuse are as good as gone": [(files(10), "+"), (files(4, listed=10), "-")],
    "an empty listing": [(files(10), "+"), (files(0), "-")],
    "a listing that names files and reads none of them": [(files(10), "+"), (files(0, listed=10), "-")],
    "distrusted three times in a row and believed on the fourth": [
        (files(10), "+"),
        *[(files(2), "-")] * 3,
        (files(2), "+"),
    ],
    "any shrink counts for the budget, not the same one": [
        (files(10), "+"),
        (files(2), "-"),
        (files(0, listed=10), "-"),
        (files(1), "-"),
        (files(3), "+"),
    ],
    "a believed scan in between fills the budget again": [
        (files(10), "+"),
        *[(files(2), "-")] * 3,
        (files(10), "+"),
        *[(files(2), "-")] * 3,
        (files(2), "+"),
    ],
    "believing a shrink makes the new size the known one": [
        (files(10), "+"),
        *[(files(4), "-")] * 3,
        *[(files(4), "+")] * 2,
        (files(2), "+"),
        (files(1), "-"),
    ],
    "the next collapse meets three scans in full": [
        (files(100), "+"),
        *[(files(20), "-")] * 3,
        (files(20), "+"),
        *[(files(3), "-")] * 3,
        (files(3), "+"),
    ],
    "the known count is a high-water mark: a slice a scan is measured against all": [
        (files(10), "+"),
        (files(8), "+"),
        (files(6), "+"),
        (files(4), "-"),
    ],
    "it rises with the folder": [(files(2), "+"), (files(10), "+"), (files(4), "-")],
    "a folder emptied for good is believed and left alone": [
        (files(10), "+"),
        *[(files(0), "-")] * 3,
        *[(files(0), "+")] * 9,
    ],
    "files that stopped reading altogether are paid for once": [
        (files(10), "+"),
        *[(files(0, listed=10), "-")] * 3,
        *[(files(0, listed=10), "+")] * 9,
    ],
    "and the distrust starts over when a file reads again": [
        (files(10), "+"),
        *[(files(0, listed=10), "-")] * 3,
        (files(0, listed=10), "+"),
        (files(1, listed=10), "+"),
        *[(files(0, listed=10), "-")] * 3,
        (files(0, listed=10), "+"),
    ],
    "an outage in between neither spends nor refills the budget": [
        (files(10), "+"),
        (files(2), "-"),
        *[(OUTAGE, "-")] * 5,
        (files(2), "-"),
        (OUTAGE, "-"),
        (files(2), "-"),
        (OUTAGE, "-"),
        (files(2), "+"),
    ],
    "a folder that alternates between unlistable and degraded is believed all the same": [
        (files(10), "+"),
        *[(OUTAGE, "-"), (files(1), "-")] * 3,
        (OUTAGE, "-"),
        (files(1), "+"),
    ],
    "an outage takes nothing from what is known": [(files(10), "+"), (OUTAGE, "-"), (files(4), "-")],
    "an outage at the start is no listing to believe": [(OUTAGE, "-"), (files(1, listed=9), "+")],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_a_scan_is_believed_as_the_story_tells(story):
    trust, told = ScanTrust(), []
    for observation, _ in story:
        trust, distrust = trust.after(observation)
        told.append("-" if distrust else "+")

    assert told == [expected for _, expected in story]


@pytest.mark.parametrize(
    ("known", "found", "words"),
    [
        (10, files(0), "lists no DAG file and is known to have held 10 readable ones"),
        (10, files(2, listed=9), "of 9 DAG files listed 2 can be read, and 10 were known"),
        (None, files(0, listed=9), "of 9 DAG files listed 0 can be read"),
        (10, OUTAGE, "no such folder"),
    ],
)
def test_the_reason_says_what_was_found(known, found, words):
    _, reason = ScanTrust(known).after(found)

    assert words in reason


observations = st.one_of(st.just(OUTAGE), st.builds(files, st.integers(0, 20), st.integers(20, 30)))


@given(st.lists(observations, max_size=40))
def test_no_more_than_three_listings_in_a_row_are_distrusted(scans):
    trust, distrusted = ScanTrust(), 0
    for scan in scans:
        trust, reason = trust.after(scan)
        if isinstance(scan, FilesFound):
            distrusted = distrusted + 1 if reason else 0
        assert distrusted <= 3
        assert trust.spent <= 3
