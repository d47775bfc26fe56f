"""What a DAG file declares, read from its text alone."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.watcher.dagfiles.decorator_calls import read_file_text


def read(text):
    return read_file_text(dedent(text), "dags/file.py")


def keys(text):
    reading = read(text)
    assert reading.failure is None
    assert reading.complaints == ()
    return [tuple(item.key) for item in reading.declarations]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            """
            @rmq_trigger(queue="orders")
            @dag(schedule=None)
            def orders_dag(): ...
            """,
            [("orders_dag", "orders", "rmq_default")],
            id="function name as dag_id",
        ),
        pytest.param(
            """
            @rmq_trigger("orders", None, "broker_2")
            @dag("explicit")
            def f(): ...
            """,
            [("explicit", "orders", "broker_2")],
            id="positional arguments",
        ),
        pytest.param(
            """
            QUEUE = "orders"
            DAG_ID: str = "by_constant"
            CONN = "broker_2"

            @rmq_trigger(queue=QUEUE, conn_id=CONN)
            @dag(dag_id=DAG_ID)
            def f(): ...
            """,
            [("by_constant", "orders", "broker_2")],
            id="module constants",
        ),
        pytest.param(
            """
            from airflow import decorators
            from airflow_provider_rmq.watcher import decorators as rmq

            @rmq.rmq_trigger(queue="orders")
            @decorators.dag(dag_id="d")
            def f(): ...
            """,
            [("d", "orders", "rmq_default")],
            id="attributes of modules",
        ),
        pytest.param(
            """
            from airflow.decorators import dag as make_dag
            from airflow_provider_rmq.watcher.decorators import rmq_trigger as starts_with

            @starts_with(queue="orders")
            @make_dag(dag_id="d")
            def f(): ...
            """,
            [("d", "orders", "rmq_default")],
            id="import aliases",
        ),
        pytest.param(
            """
            @rmq_trigger(queue="a")
            @rmq_trigger(queue="b")
            @dag(dag_id="d")
            def f(): ...
            """,
            [("d", "a", "rmq_default"), ("d", "b", "rmq_default")],
            id="stacked",
        ),
        pytest.param(
            """
            with DAG(dag_id="d", schedule=None) as dag:
                pass
            rmq_trigger(queue="orders")(dag)
            """,
            [("d", "orders", "rmq_default")],
            id="with DAG",
        ),
        pytest.param(
            """
            dag = rmq_trigger(queue="orders")(DAG("d"))
            """,
            [("d", "orders", "rmq_default")],
            id="DAG object in place",
        ),
        pytest.param(
            """
            import airflow
            d = airflow.DAG("d")
            rmq_trigger(queue="orders")(d)
            """,
            [("d", "orders", "rmq_default")],
            id="named DAG object",
        ),
        pytest.param(
            """
            @dag(dag_id="d")
            def make(): ...
            rmq_trigger(queue="orders")(make())
            """,
            [("d", "orders", "rmq_default")],
            id="factory called",
        ),
        pytest.param(
            """
            def build():
                @rmq_trigger(queue="orders")
                @dag(dag_id="inner")
                def f(): ...
            """,
            [("inner", "orders", "rmq_default")],
            id="nested function",
        ),
        pytest.param("import os\n", [], id="nothing to do with us"),
        pytest.param("text = 'rmq_trigger'\n", [], id="a mere mention"),
    ],
)
def test_it_finds(text, expected):
    assert keys(text) == expected


TWO_EXCHANGES = """
@rmq_trigger(exchange="a", routing_keys=["k"])
@rmq_trigger(exchange="b", routing_keys=["k"])
@dag()
def d(): ...
"""


def test_every_argument_may_be_made_of_literals_and_constants():
    (declaration,) = read(
        """
        IDS = ["1", "2"]
        KIND = "order"
        MINUTE = 60

        @rmq_trigger(
            exchange="e",
            routing_key_ids=IDS,
            routing_key_status=["ok"],
            filter_data={"filter_headers": {"kind": KIND, "body.n": -1, "tags": [None, True]}},
            cooldown=MINUTE,
            ack_unmatched=True,
        )
        @dag(dag_id="d")
        def f(): ...
        """
    ).declarations

    assert declaration.exchange.routing_keys == ("1.ok", "2.ok")
    assert declaration.filter_data == {"filter_headers": {"kind": "order", "body.n": -1, "tags": [None, True]}}
    assert (declaration.cooldown, declaration.ack_unmatched) == (60, True)


@pytest.mark.parametrize(
    ("text", "parameter", "words"),
    [
        ('@rmq_trigger(queue=f"q{1}")\n@dag()\ndef d(): ...', "queue", "is computed"),
        ('@rmq_trigger(queue=os.environ["Q"])\n@dag()\ndef d(): ...', "queue", "is computed"),
        ("@rmq_trigger(queue=LATER)\n@dag()\ndef d(): ...\nLATER = 'q'", "queue", "names LATER"),
        ("Q = 'a'\nQ = 'b'\n@rmq_trigger(queue=Q)\n@dag()\ndef d(): ...", "queue", "names Q"),
        ("for Q in ('a', 'b'): pass\n@rmq_trigger(queue=Q)\n@dag()\ndef d(): ...", "queue", "names Q"),
        ("from settings import Q\n@rmq_trigger(queue=Q)\n@dag()\ndef d(): ...", "queue", "names Q"),
        (
            "Q = 'a'\ndef f():\n global Q\n Q = 'b'\n@rmq_trigger(queue=Q)\n@dag()\ndef d(): ...",
            "queue",
            "names Q",
        ),
        ('@rmq_trigger(queue="q", conn_id=name())\n@dag()\ndef d(): ...', "conn_id", "is computed"),
        ("@rmq_trigger(**options)\n@dag()\ndef d(): ...", "**", "not known"),
        ('@rmq_trigger(*["q"])\n@dag()\ndef d(): ...', "queue", "unpacked"),
        ('@rmq_trigger("q", queue="r")\n@dag()\ndef d(): ...', "queue", "given twice"),
        ('@rmq_trigger(queue="q", cooldwn=5)\n@dag()\ndef d(): ...', "cooldwn", "not known"),
        ('@rmq_trigger("a", None, "c", None, 0, 7)\n@dag()\ndef d(): ...', "argument 6", "not known"),
        ("@rmq_trigger()\n@dag()\ndef d(): ...", "the call", "is refused"),
        ('@rmq_trigger(queue="")\n@dag()\ndef d(): ...', "the call", "queue must not be empty"),
        ("@rmq_trigger(queue=5)\n@dag()\ndef d(): ...", "the call", "queue must be a str"),
        (TWO_EXCHANGES, "exchange", "second one of this DAG"),
        ('@rmq_trigger(queue="q", cooldown=-1)\n@dag()\ndef d(): ...', "the call", "cooldown must be an int"),
        ('@rmq_trigger(queue="q")\n@dag(dag_id=make())\ndef d(): ...', "dag_id", "is computed"),
        ('@rmq_trigger(queue="q")\n@dag(**options)\ndef d(): ...', "dag_id", "unpacked"),
        ('@rmq_trigger(queue="q")\n@dag("a", dag_id="b")\ndef d(): ...', "dag_id", "given twice"),
        ('@rmq_trigger(queue="q")\n@dag(dag_id=5)\ndef d(): ...', "dag_id", "is 5, not a text"),
        ('@rmq_trigger(queue="q")\ndef d(): ...', "dag_id", "no call of dag"),
        ('rmq_trigger(queue="q")(unknown)', "dag_id", "no call of dag"),
        ('rmq_trigger(queue="q")(DAG())', "dag_id", "is missing"),
    ],
)
def test_what_it_cannot_read_is_named_and_not_registered(text, parameter, words):
    reading = read(text)

    assert len(reading.declarations) == (1 if text is TWO_EXCHANGES else 0)
    complaint = reading.complaints[-1]
    assert complaint.parameter == parameter
    assert words in complaint.reason
    assert f"dags/file.py:{complaint.line}" in str(complaint)


def test_a_complaint_names_dag_queue_parameter_and_line():
    (complaint,) = read('\n\n@rmq_trigger(queue="q", conn_id=name())\n@dag()\ndef d(): ...').complaints

    assert (complaint.dag_id, complaint.queue, complaint.parameter, complaint.line) == ("d", "q", "conn_id", 3)


def test_one_bad_declaration_does_not_hide_the_others():
    reading = read(
        """
        @rmq_trigger(queue=broken())
        @dag()
        def a(): ...

        @rmq_trigger(queue="q")
        @dag()
        def b(): ...
        """
    )

    assert [item.key.dag_id for item in reading.declarations] == ["b"]
    assert len(reading.complaints) == 1


@pytest.mark.parametrize("text", ["rmq_trigger(", "rmq_trigger = '\0'", "rmq_trigger" + "(" * 5000])
def test_a_text_that_is_no_python_is_a_failure_with_its_reason(text):
    reading = read_file_text(text, "f.py")

    assert reading.failure
    assert reading.declarations == ()


fragments = st.sampled_from(
    ["@rmq_trigger(", "rmq_trigger(", ")", "queue=", "'q'", "X", "**", "*", "@dag(", "def f(): ...", "DAG(", "\n", ", "]
)


@given(st.text() | st.lists(fragments, max_size=20).map("".join))
def test_any_text_gives_a_reading_and_never_an_exception(text):
    assert read_file_text(f"rmq_trigger\n{text}", "f.py") is not None


WHOLE = """
from airflow.decorators import dag
from airflow_provider_rmq.watcher import decorators as d
from airflow_provider_rmq.watcher.decorators import rmq_trigger as on_message

QUEUE, OTHER = "a", "b"
KEYS: list = [1, -2.5, None, {"x": (1, 2)}]

@on_message(queue="a", filter_data={"filter_headers": {"k": KEYS}}, cooldown=60)
@d.rmq_trigger(queues=["b", "c"], ack_unmatched=True)
@dag("orders")
def orders(): ...

with DAG(dag_id="events", schedule=None) as events:
    match 1:
        case 1:
            d.rmq_trigger(exchange="e", routing_keys=["a.b"])(d.rmq_trigger("q")(events))
"""


def test_the_whole_example_is_read():
    reading = read_file_text(WHOLE, "f.py")

    assert [item.key.queue_name for item in reading.declarations] == [
        "a",
        "b",
        "c",
        "rmq_watcher.sub.events",
        "q",
    ]
    assert reading.complaints == ()


@given(st.lists(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12), st.text(max_size=4)), max_size=5))
def test_however_a_file_is_damaged_reading_it_gives_a_result(damages):
    text = WHOLE
    for position, length, inserted in damages:
        text = text[:position] + inserted + text[position + length :]

    reading = read_file_text(text, "f.py")

    assert (reading.failure is None) or not reading.declarations


@pytest.mark.parametrize(
    "text",
    [
        'handle = rmq_trigger(queue="a")\n@handle\n@dag()\ndef f(): ...\n',
        'dags.append(rmq_trigger(queue="a"))\n',
        '@rmq_trigger(queue="a")\nclass C: ...\n',
    ],
)
def test_a_call_that_is_not_applied_to_a_dag_on_the_spot_is_named(text):
    reading = read_file_text(text, "f.py")

    assert reading.declarations == ()
    (complaint,) = reading.complaints
    assert "not applied to a DAG on the spot" in str(complaint)
    assert "queue a" in str(complaint)


@pytest.mark.parametrize("key", ["[1]", "{}", "(1, [2])"])
def test_a_key_that_no_dict_can_have_is_a_complaint(key):
    reading = read_file_text(f'@rmq_trigger(queue="a", filter_data={{{key}: 1}})\n@dag()\ndef f(): ...\n', "f.py")

    assert reading.declarations == ()
    assert "has a key that is no plain value" in str(reading.complaints[0])
