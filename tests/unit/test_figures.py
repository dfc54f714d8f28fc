"""The figure: the same bytes from the same data, and words for who cannot see it."""

import re

import pytest

from reproduce import tables
from reproduce.outside.rundir import RunDir
from reproduce.pages import figures
from reproduce.reading import analysis


@pytest.mark.parametrize("theme", figures.PALETTES)
@pytest.mark.parametrize("kind", figures.FORMATS)
def test_the_same_data_give_the_same_bytes(
    published: RunDir, theme: figures.Theme, kind: figures.Format
) -> None:
    frame = analysis.measurements(published)
    table = tables.ladder_table(frame, published.profile, "total_tok_s")
    first, second = (
        figures.to_bytes(figures.ladder_figure(table, frame, published.profile, theme), kind)
        for _ in range(2)
    )
    assert first == second
    assert len(first) > 5_000


def test_the_svg_carries_no_date_and_no_place(published: RunDir) -> None:
    frame = analysis.measurements(published)
    table = tables.ladder_table(frame, published.profile, "total_tok_s")
    svg = figures.to_bytes(figures.ladder_figure(table, frame, published.profile, "light"), "svg")
    assert b"dc:date" not in svg
    assert not re.search(rb"/(home|root|usr)/", svg)


def test_the_alt_text_has_the_numbers_that_matter(published: RunDir) -> None:
    frame = analysis.measurements(published)
    table = tables.ladder_table(frame, published.profile, "total_tok_s")
    alt = figures.ladder_alt(table, published.profile)
    for row in table.itertuples():
        assert f"{row.percent:.1f} %" in alt
    assert "±3 %" in alt


def test_nothing_measured_yet_is_said_in_words(published: RunDir) -> None:
    frame = analysis.measurements(published).iloc[:0]
    table = tables.ladder_table(frame, published.profile, "total_tok_s")
    assert "no workload has been measured" in figures.ladder_alt(table, published.profile)
    figures.to_bytes(figures.ladder_figure(table, frame, published.profile, "dark"), "png")


def test_the_arms_are_told_apart_without_colour(published: RunDir) -> None:
    frame = analysis.measurements(published)
    table = tables.ladder_table(frame, published.profile, "total_tok_s")
    axes = figures.ladder_figure(table, frame, published.profile, "light").axes[0]
    styles = {(line.get_marker(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(styles) >= 2
