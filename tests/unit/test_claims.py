"""Every claim has a line, and no verdict says more than its facts."""

import json
import re
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reproduce.errors import DataError
from reproduce.outside.rundir import RunDir
from reproduce.pages import display_claims
from reproduce.pages.display_claims import ClaimSources
from reproduce.pages.files import Files
from reproduce.pages.lineage import Source
from reproduce.reading import judgement
from reproduce.text.rounding import Relation, Span, exact, mean, printed, relation
from reproduce.verdicts import claims
from reproduce.verdicts.claim_checks import Checks
from reproduce.verdicts.claim_tests import RunTests
from reproduce.verdicts.claims import Answer, Consistency, Standing
from tests.conftest import REPO
from tests.unit.test_confounders import CLEAN, launch, measured

ARTICLE = judgement.load_article()
CLAIMS = {claim.id: claim for claim in judgement.load_claims()}
SPEED = {name for name, claim in CLAIMS.items() if claim.scope == "measured run"}


@pytest.fixture(scope="module")
def on_published(published):
    return {one.claim.id: one for one in judgement.judged_claims(published)}


# Rounding


def test_136_over_139_is_anything_from_97_1_to_98_6():
    assert ((printed("136") / printed("139")) * 100).text(1) == "97.1 to 98.6"


@given(st.integers(10, 10**6), st.integers(10, 10**6), st.integers(0, 3))
def test_the_quotient_of_printed_numbers_contains_the_true_one(a, b, digits):
    found = printed(f"{a / 7:.{digits}f}") / printed(f"{b / 7:.{digits}f}")
    assert Span(Fraction(a, b), Fraction(a, b)).inside(found)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (exact(99.57), Relation.SAME),
        (printed("99.6"), Relation.SAME),
        (printed("100"), Relation.OPEN),
        (exact(99.66), Relation.APART),
    ],
)
def test_how_found_values_relate_to_a_printed_one(found, expected):
    assert relation(found, printed("99.6")) is expected


def test_arithmetic_of_spans():
    assert (printed("2,378") - printed("8")).text(0) == "2,369 to 2,371"
    assert mean([exact(1), exact(2), exact(6)]) == exact(3)
    assert (exact(2) * -1).low == -2
    assert printed("1").narrowed(printed("1.2")) == printed("1.2")
    assert printed("1").narrowed(printed("9")) == printed("1")
    with pytest.raises(ValueError, match="positive"):
        exact(1) / printed("0")


# The published data


def test_every_claim_has_a_line(on_published):
    assert list(on_published) == list(CLAIMS)
    assert len(CLAIMS) > 50


def test_no_speed_claim_is_reproduced_by_a_replay(on_published):
    for name in SPEED:
        assert on_published[name].answer.standing is Standing.NOT_TESTABLE, name


def test_no_claim_on_engines_is_reproduced_by_a_replay(on_published):
    names = [name for name, claim in CLAIMS.items() if claim.scope == "engine log"]
    assert {on_published[name].answer.standing for name in names} == {Standing.NOT_TESTABLE}


def test_the_article_agrees_with_its_own_data(on_published):
    assert not [n for n, one in on_published.items() if one.consistency is Consistency.INCONSISTENT]
    assert on_published["speed-c1"].own_data.startswith("97.13 to 98.56 %")
    assert on_published["ttft-mean"].consistency is Consistency.NO_DATA
    assert "1 of 5 rows" in on_published["ttft-mean"].own_data


@pytest.mark.parametrize(
    ("name", "standing"),
    [
        ("arithmetic-c1", Standing.INCONCLUSIVE),
        ("arithmetic-unbounded", Standing.REPRODUCED),
        ("table-json", Standing.REPRODUCED),
        ("json-total", Standing.REPRODUCED),
        ("dp16-weights", Standing.INCONCLUSIVE),
        ("dp16-wanted", Standing.NOT_TESTABLE),
        ("dp16-h100", Standing.REPRODUCED),
        ("dp16-h200", Standing.REPRODUCED),
        ("three-axes-h100", Standing.REPRODUCED),
        ("concurrency-4-31", Standing.NOT_TESTABLE),
        ("one-kv-head", Standing.REPRODUCED),
        ("experts-per-rank", Standing.REPRODUCED),
        ("parameters", Standing.REPRODUCED),
    ],
)
def test_what_the_published_data_and_the_memory_model_decide(on_published, name, standing):
    assert on_published[name].answer.standing is standing


def article(**change):
    """The article with one row's printed values or one file's values changed."""
    rows = json.loads(json.dumps(ARTICLE.rows))
    results = json.loads(json.dumps(ARTICLE.results))
    for (rung, *path), value in change.get("rows", {}).items():
        place = rows[rung]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    for (rung, arm, key), value in change.get("results", {}).items():
        results[rung][arm][key] = value
    means = {**ARTICLE.means, **change.get("means", {})}
    engine = ARTICLE.engine.model_copy(update=change.get("engine", {}))
    return replace(ARTICLE, rows=rows, results=results, means=means, engine=engine)


DAMAGED = {
    "speed-c64": {"rows": {("c64", "percent_of_native"): "99.5"}},
    "arithmetic-c16": {"rows": {("c16", "native", "total_tok_s"): "951"}},
    "mean-speed": {"means": {"percent_of_native": "99.9"}},
    "speed-range": {"means": {"percent_of_native_low": "98.6"}},
    "inside-3-percent": {
        "rows": {("c1", "transformers", "total_tok_s"): "134", ("c1", "percent_of_native"): "96.4"}
    },
    "native-speed": {"rows": {("c1", "native", "total_tok_s"): "200",
                              ("c1", "percent_of_native"): "68.0"}},
    "saturation": {"results": {("unbounded", "native", "total_token_throughput"): 6000.0}},
    "largest-deviation": {"rows": {("c1", "native", "total_tok_s"): "150",
                                   ("c1", "percent_of_native"): "90.7"}},
    "tpot-mean": {"means": {"tpot_percent_of_native": "101.4"}},
    "tpot-unbounded": {"rows": {("unbounded", "native", "tpot_ms"): "99.8"}},
    "table-json": {"rows": {("unbounded", "transformers", "total_tok_s"): "5677"}},
    "json-total": {"results": {("unbounded", "native", "duration"): 280.0}},
    "table-ceiling": {"rows": {("c16", "native", "tpot_ms"): "30.1"}},
    "fused-modules": {"engine": {"fusions": ARTICLE.engine.fusions[1:]}},
    "same-attention": {"engine": {"attention_backend": "FLASHMLA"}},
    "same-custom-fusions": {"engine": {"custom_fusions": ("act_quant",)}},
}  # fmt: skip


@pytest.mark.parametrize(("name", "change"), DAMAGED.items(), ids=DAMAGED)
def test_a_damaged_article_is_inconsistent(name, change):
    claim = CLAIMS[name]
    rules = Checks(article(**change)).rules()
    check = rules[claim.check.rule](claim, **claim.check.values)
    assert check.relation is Relation.APART


# Measured runs


def run_rules(**change):
    given = {
        "conditions": CLEAN,
        "article": ARTICLE.profile,
        "attention": ARTICLE.engine.attention_backend,
    }
    return RunTests(**{**given, **change})


def answer(name, run):
    claim = CLAIMS[name]
    return run.rules()[claim.test.rule](claim, **claim.test.values)


def test_the_tiny_checkpoint_tests_the_mechanism_and_not_the_numbers():
    run = run_rules()
    for name in ("native-speed", "inside-3-percent", "saturation", "fused-modules", "same-version"):
        found = answer(name, run)
        assert found.standing is Standing.REPRODUCED, name
        assert found.note == "In form only: tiny-deepseek-v3, not DeepSeek-R1-0528."
    for name in ("mean-speed", "speed-c1", "tpot-c1", "ttft-mean", "flash-attn-mla"):
        assert answer(name, run).standing is Standing.NOT_TESTABLE, name


def slow(ratio):
    return replace(CLEAN, measurements=measured(lambda _: ratio, noise=0.003))


def test_a_slow_arm_contradicts():
    run = run_rules(conditions=slow(0.8))
    for name in ("native-speed", "inside-3-percent", "saturation"):
        assert answer(name, run).standing is Standing.CONTRADICTED, name


def test_a_fast_arm_is_not_slower_but_not_inside_either():
    run = run_rules(conditions=slow(1.2))
    assert answer("native-speed", run).standing is Standing.REPRODUCED
    assert answer("inside-3-percent", run).standing is Standing.CONTRADICTED


def test_noise_is_inconclusive():
    frame = measured(noise=0.3)
    run = run_rules(conditions=replace(CLEAN, measurements=frame))
    assert answer("inside-3-percent", run).standing is Standing.INCONCLUSIVE


def test_a_rung_without_a_pair_is_never_a_good_verdict():
    frame = CLEAN.measurements
    frame = frame.assign(valid=frame["rung"] != "c1")
    run = run_rules(conditions=replace(CLEAN, measurements=frame))
    for name in ("native-speed", "inside-3-percent"):
        assert answer(name, run).standing is Standing.INCONCLUSIVE


@pytest.mark.parametrize(
    ("bar", "standing"),
    [("withheld", Standing.INCONCLUSIVE), ("objections", Standing.NOT_TESTABLE)],
)
def test_what_bars_a_verdict_on_speed_bars_every_claim_on_it(bar, standing):
    run = run_rules(**{bar: ("the reason",)})
    for name in ("native-speed", "inside-3-percent", "saturation", "mean-speed"):
        found = answer(name, run)
        assert found.standing is standing
        assert "the reason" in found.found


def like_the_article(ratio, noise=0.001):
    """A run in the article's setting whose every rung has one ratio."""
    names = dict(zip([rung.name for rung in CLEAN.profile.ladder], ARTICLE.rows, strict=True))
    frame = measured(lambda _: ratio, noise=noise)
    frame["rung"] = frame["rung"].map(names)
    profile = ARTICLE.profile.model_copy(update={"kind": "measured"})
    launches = [launch(arm, attention_backend="FLASH_ATTN_MLA") for arm in CLEAN.arms]
    return run_rules(
        conditions=replace(CLEAN, profile=profile, measurements=frame, launches=launches)
    )


@pytest.mark.parametrize(
    ("ratio", "standing"),
    [(0.98, Standing.REPRODUCED), (0.93, Standing.CONTRADICTED), (0.9701, Standing.INCONCLUSIVE)],
)
def test_the_articles_setting_decides_its_numbers(ratio, standing):
    found = answer("speed-c1", like_the_article(ratio))
    assert found.standing is standing
    assert answer("mean-speed", like_the_article(1.0)).standing is Standing.REPRODUCED
    assert answer("flash-attn-mla", like_the_article(ratio)).standing is Standing.REPRODUCED


def test_logs_that_differ_contradict_and_logs_that_lack_do_not_decide():
    lacking = replace(CLEAN, launches=[launch("native"), launch("transformers", kv_tokens=None)])
    differing = replace(CLEAN, launches=[launch("native"), launch("transformers", kv_tokens=9)])
    assert answer("same-cache", run_rules(conditions=lacking)).standing is Standing.INCONCLUSIVE
    assert answer("same-cache", run_rules(conditions=differing)).standing is Standing.CONTRADICTED
    assert answer("same-custom-fusions", run_rules()).standing is Standing.INCONCLUSIVE


def test_a_fusion_that_the_log_lacks_contradicts():
    short = launch("transformers", fusions=CLEAN.logs("transformers")[0].engine.fusions[1:])
    run = run_rules(conditions=replace(CLEAN, launches=[launch("native"), short]))
    found = answer("fused-modules", run)
    assert found.standing is Standing.CONTRADICTED
    assert "self_attn" in found.found


def test_native_against_native_says_nothing_of_the_claims_on_engines():
    again = launch("native").model_copy(update={"arm": "transformers"})
    run = run_rules(conditions=replace(CLEAN, launches=[launch("native"), again]))
    for name in ("fused-modules", "same-cache", "identical-flags"):
        assert answer(name, run).standing is Standing.NOT_TESTABLE


def test_native_against_native_says_nothing_of_speed():
    judged = judgement.judged_claims(RunDir.open(REPO / "data" / "yardstick"))
    told = {one.answer.standing for one in judged if one.claim.id in SPEED}
    assert told == {Standing.NOT_TESTABLE}


# The list itself


def test_no_statement_occurs_twice_and_every_scope_is_used():
    assert len({claim.statement for claim in CLAIMS.values()}) == len(CLAIMS)
    assert {claim.scope for claim in CLAIMS.values()} == {
        "published data", "measured run", "engine log", "memory model"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scope": "somewhere"}, "0.scope"),
        ({"surprise": 1}, "0.surprise"),
        ({"test": None}, "test: given unless"),
        ({"margin": 3}, "0.margin"),
    ],
)
def test_a_damaged_list_is_one_line(tmp_path, change, told):
    first = yaml.safe_load(judgement.CLAIMS.read_text())[0]
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump([{**first, **change}]))
    with pytest.raises(DataError, match=told) as caught:
        judgement.load_claims(path)
    assert "\n" not in str(caught.value)


def test_two_claims_of_one_name_and_an_unknown_rule_are_refused(tmp_path):
    first = yaml.safe_load(judgement.CLAIMS.read_text())[0]
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump([first, first]))
    with pytest.raises(DataError, match="two claims are called 'native-speed'"):
        judgement.load_claims(path)
    with pytest.raises(DataError, match="no rule"):
        claims.judge([CLAIMS["native-speed"]], {}, Checks(ARTICLE).rules())


# On a run directory


SOURCE = Source("raw/a", "a" * 64, "/x")
FILES = Files({"manifest.json": "a" * 64})


def html_of(judged):
    places = ClaimSources((SOURCE,), (SOURCE,), (SOURCE,))
    return display_claims.claims(judged, [places] * len(judged), [SOURCE])


def test_frames_of_the_published_run(published):
    judged = judgement.judged_claims(published)
    assert len(judged) == len(judgement.claims_frame(published)) == len(CLAIMS)
    assert html_of(judged).count("<tr") == len(CLAIMS) + 1
    audit = judgement.audit_frame(published)
    assert audit["violated"].sum() == 0
    assert audit["holds"].sum() > 40
    assert judgement.verdict_of(published).label == "replayed, not measured"


def test_what_files_say_is_escaped(published):
    first = judgement.judged_claims(published)[0]
    answer = Answer(Standing.REPRODUCED, "<script>1", "<b>2")
    html = html_of([replace(first, answer=answer, own_data="<i>3")])
    named = judgement.confounders_frame(published).head(1).assign(found="<script>1")
    html += display_claims.confounders(named, FILES)
    audit = judgement.audit_frame(published).head(1)
    audit = audit.assign(violated=1, **{"first finding": "<script>1"})
    html += display_claims.audit(audit, FILES)
    assert not {"<script", "<b>", "<i>"} & set(re.findall(r"<\w+>?", html))


def test_an_edited_raw_file_is_found(tmp_path, published):
    root = tmp_path / "run"
    shutil.copytree(published.root, root)
    path = root / "raw/native/launch-01/unbounded/rep-01.json"
    path.write_text(path.read_text().replace("285.245001591", "270.245001591"))
    frame = judgement.confounders_frame(RunDir.open(root)).set_index("rule")
    assert "rep-01.json" in frame.loc["changed raw files", "found"]
    assert "throughput" in frame.loc["results that contradict themselves", "found"]
    assert np.any(judgement.audit_frame(RunDir.open(root))["violated"] > 0)
