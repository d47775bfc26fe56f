"""Random stories of deployments, broken files, switches, restarts and a second Scheduler, against a plain model.

The scan and the plan are the real ones; the table is a dictionary with the conditional writes of `rows.sync`. The model
below is the reference's prose and nothing else: it knows no listing, no plan and no trust.
"""

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_provider_rmq.watcher.dagfiles.file_reader import FileReader
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner
from airflow_provider_rmq.watcher.rows.sync_plan import StoredRow, plan_sync
from airflow_provider_rmq.watcher.subscription import Source, SubscriptionKey

DAGS = ("a", "b", "c")
SCHEDULERS = (0, 1)
#: Files that declare nothing, so many that the folder stays believable whatever happens to the others.
OTHERS = 6
TEXTS = {
    "declares": '@rmq_trigger(queue="q")\n@dag(dag_id="{dag_id}")\ndef f(): ...\n',
    "declares nothing": "x = 1\n",
    "is broken": "from x import (\n",
}


@dataclass
class ModelRow:
    generation: int
    enabled: bool = True
    misses: int = 0


@dataclass
class ModelScheduler:
    """What one Scheduler remembers of a file: what it last parsed, and whether that is on its last scan."""

    declared: dict = field(default_factory=dict)
    lent: set = field(default_factory=set)

    def sees(self, files):
        """The DAGs this Scheduler takes for declared now."""
        seen = set()
        for dag_id, state in files.items():
            if state == "is broken":
                held = self.declared.get(dag_id, False) and dag_id not in self.lent
                self.lent.discard(dag_id)
                if held:
                    self.lent.add(dag_id)
                    seen.add(dag_id)
                else:
                    self.declared[dag_id] = False
                continue
            self.lent.discard(dag_id)
            self.declared[dag_id] = state == "declares"
            if state == "declares":
                seen.add(dag_id)
        for dag_id in DAGS:
            if dag_id not in files:
                self.declared.pop(dag_id, None)
                self.lent.discard(dag_id)
        return seen


class Stories(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rmq-stories-"))
        for number in range(OTHERS):
            (self.folder / f"other{number}.py").write_text("y = 1\n")
        self.files = {}
        self.inactive = set()
        self.table, self.next_id = {}, 1
        self.model, self.generations = {}, 0
        self.readable = True

    def teardown(self):
        shutil.rmtree(self.folder)

    @initialize()
    def start(self):
        self.scanners = [self.scanner() for _ in SCHEDULERS]
        self.schedulers = [ModelScheduler() for _ in SCHEDULERS]
        for dag_id in DAGS:
            self.deploy(dag_id, "declares")

    def scanner(self):
        def folder():
            if not self.readable:
                raise OSError("stale file handle")
            return self.folder

        return DagFolderScanner(folder, lambda folder: [], FileReader(lambda path, archive: True))

    # -- what people do

    @rule(dag_id=st.sampled_from(DAGS), state=st.sampled_from([*TEXTS, "is gone"]))
    def deploy(self, dag_id, state):
        path = self.folder / f"{dag_id}.py"
        if state == "is gone":
            path.unlink(missing_ok=True)
            self.files.pop(dag_id, None)
        else:
            path.write_text(TEXTS[state].format(dag_id=dag_id))
            self.files[dag_id] = state

    @rule(dag_id=st.sampled_from(DAGS), enabled=st.booleans())
    def switch(self, dag_id, enabled):
        for row_id, row in self.table.items():
            if row.key.dag_id == dag_id:
                self.table[row_id] = replace(row, enabled=enabled)
        if dag_id in self.model:
            self.model[dag_id].enabled = enabled

    @rule(dag_id=st.sampled_from(DAGS), active=st.booleans())
    def airflow_counts(self, dag_id, active):
        (self.inactive.discard if active else self.inactive.add)(dag_id)

    @rule(which=st.sampled_from(SCHEDULERS))
    def restart(self, which):
        self.scanners[which] = self.scanner()
        self.schedulers[which] = ModelScheduler()

    # -- what Schedulers do

    @rule(which=st.sampled_from(SCHEDULERS))
    def outage(self, which):
        self.readable = False
        assert self.scanners[which].read().distrust
        self.readable = True

    @rule(which=st.sampled_from(SCHEDULERS), times=st.integers(1, 4))
    def cycles(self, which, times):
        for _ in range(times):
            self.apply(self.plan(which))
            self.model_write(self.model_read(which))
            self.the_table_is_what_the_reference_says()

    @rule(first=st.sampled_from(SCHEDULERS))
    def cycles_at_the_same_time(self, first):
        """Both read, then both write."""
        plans = [self.plan(which) for which in (first, 1 - first)]
        views = [self.model_read(which) for which in (first, 1 - first)]
        for plan, view in zip(plans, views, strict=True):
            self.apply(plan)
            self.model_write(view)

    def plan(self, which):
        listing = self.scanners[which].read()
        assert listing.distrust is None
        return plan_sync(list(self.table.values()), listing.declarations, frozenset(self.inactive))

    def apply(self, plan):
        keys = {row.key for row in self.table.values()}
        for declaration in plan.inserts:
            if declaration.key not in keys:
                self.table[self.next_id] = StoredRow(
                    id=self.next_id, key=declaration.key, source=Source.DAG_FILE, enabled=True, misses=0
                )
                self.next_id += 1
        for read in plan.found_again:
            self.write(read, misses=0)
        for read in plan.misses:
            self.write(read, misses=read.misses + 1)
        for read in plan.deletions:
            stored = self.table.get(read.id)
            if stored and (stored.misses, stored.enabled) == (read.misses, read.enabled):
                del self.table[read.id]

    def write(self, read, *, misses):
        stored = self.table.get(read.id)
        if stored and stored.misses == read.misses:
            self.table[read.id] = replace(stored, misses=misses)

    # -- what the reference says becomes of it

    def model_read(self, which):
        seen = self.schedulers[which].sees(self.files)
        return seen, {dag_id: replace(row) for dag_id, row in self.model.items()}

    def model_write(self, view):
        seen, read = view
        for dag_id in DAGS:
            before, now = read.get(dag_id), self.model.get(dag_id)
            if before is None:
                if dag_id in seen and now is None:
                    self.generations += 1
                    self.model[dag_id] = ModelRow(self.generations)
                continue
            if now is None or (now.generation, now.misses) != (before.generation, before.misses):
                continue  # another Scheduler has moved it on
            if dag_id in seen:
                now.misses = 0
                continue
            misses = before.misses + 1
            if misses > 3 or (misses == 3 and before.enabled and dag_id in self.inactive):
                if now.enabled == before.enabled:
                    del self.model[dag_id]
            else:
                now.misses = misses

    @invariant()
    def the_table_is_what_the_reference_says(self):
        rows = {row.key.dag_id: (row.id, row.enabled, row.misses) for row in self.table.values()}

        assert rows == {dag_id: (row.generation, row.enabled, row.misses) for dag_id, row in self.model.items()}
        assert all(row.key == SubscriptionKey(row.key.dag_id, "q", "rmq_default") for row in self.table.values())


Stories.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
test_stories_end_as_the_reference_says = Stories.TestCase
