"""dedup: equal texts compared with a dict, similar texts with their exact Jaccard similarity, lines, errors."""

import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import koel

WORDS = [f"w{i}" for i in range(2000)]


def kept_rows(texts):
    """The first row with the text of each row."""
    seen = {}
    return [row if text is None else seen.setdefault(text, row) for row, text in enumerate(texts)]


@pytest.mark.parametrize("form", [list, pa.array, pl.Series, lambda texts: pd.Series(texts, dtype="string")])
@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_equal_texts_match_a_dict(form, device):
    draw = random.Random(1)
    texts = [draw.choice([None, "", *WORDS[:300]]) for _ in range(20_000)]
    found = koel.dedup(form(texts), device=device)
    assert found.dtype == np.int64 and found.tolist() == kept_rows(texts)


def test_a_table_has_a_column_of_text():
    table = pa.table({"id": [1, 2, 3], "text": ["a", "A", "a"]})
    assert koel.dedup(table, "text").tolist() == [0, 1, 0]
    assert koel.dedup(table, on="text", normalize=["case", "nfc"]).tolist() == [0, 0, 0]
    assert koel.dedup(table.to_pandas(), on="text").tolist() == [0, 1, 0]
    assert koel.dedup(pa.chunked_array([["a"], [], ["b", "a"]])).tolist() == [0, 1, 0]
    assert koel.dedup(pa.array([], "string")).tolist() == koel.dedup([]).tolist() == []
    assert koel.dedup([], by="line").to_pylist() == []


def test_similar_texts_are_found():
    draw = random.Random(2)
    originals = [[draw.choice(WORDS) for _ in range(100)] for _ in range(200)]
    texts = [" ".join(words) for words in originals]
    for words in originals:
        changed = list(words)
        changed[draw.randrange(100)] = "changed"
        texts.append(" ".join(changed))

    def shingles(text):
        words = text.split()
        return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}

    found = koel.dedup(texts, near=True)
    for row in range(200):
        a, b = shingles(texts[row]), shingles(texts[200 + row])
        assert len(a & b) / len(a | b) > 0.88
    assert found[:200].tolist() == list(range(200))
    # No other texts are similar. Nine bands miss a few pairs.
    assert all(found[200 + row] in (row, 200 + row) for row in range(200))
    assert (found[200:] < 200).mean() > 0.9
    assert (koel.dedup(texts, near=True, bands=20)[200:] < 200).mean() > 0.97
    # The threshold compares signatures, which are estimates. Those of most pairs differ.
    assert (koel.dedup(texts, near=True, threshold=1.0)[200:] < 200).mean() < 0.05


@pytest.mark.parametrize("by", ["line", "paragraph"])
def test_lines_and_paragraphs_are_removed(by):
    texts = ["menu\n\na", None, "Menu\n\nb\n\na", "menu"]
    found = koel.dedup(texts, by=by)
    assert found.to_pylist() == ["menu\n\na", None, "Menu\n\nb\n\n", ""]
    found = koel.dedup(pa.array(texts, "large_string"), by=by, normalize="case").to_pyarrow()
    assert found.type == pa.large_string()
    assert found.to_pylist() == ["menu\n\na", None, "\nb\n\n" if by == "line" else "b\n\n", ""]
    for of in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        kinds = {koel.dedup(pa.array(some, pa.string()).cast(of), by=by).type for some in ([], [None], ["a"])}
        assert len(kinds) == 1 and (kinds == {of} or pa.types.is_dictionary(of))
    assert koel.dedup(pa.array([], "string"), by=by).to_pylist() == []


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (ValueError, "by is 'word'|by is \"word\"", {"by": "word"}),
        (ValueError, "nfd", {"normalize": "nfd"}),
        (TypeError, "normalize", {"normalize": 3}),
        (ValueError, "threshold", {"near": True, "threshold": 0}),
        (ValueError, "bands", {"near": True, "bands": 200}),
        (ValueError, "by document", {"near": True, "by": "line"}),
        (KeyError, "body", {"on": "body"}),
    ],
)
def test_invalid_arguments_are_rejected(error, text, arguments):
    with pytest.raises(error, match=text):
        koel.dedup(["a"], **arguments)


def test_only_text_is_accepted():
    with pytest.raises(TypeError, match="cast it to Utf8"):
        koel.dedup([1, 2])
    with pytest.raises(ValueError, match="pass the name of its text column as on"):
        koel.dedup(pa.table({"a": ["x"], "b": ["y"]}))


@pytest.mark.parametrize("given", [{"ngram": 5}, {"num_perm": 128}, {"threshold": 0.5}, {"bands": 2}, {"seed": 0}])
def test_parameters_of_similar_texts_need_near(given):
    with pytest.raises(ValueError, match="pass near=True"):
        koel.dedup(["a"], **given)
    assert koel.dedup(["a"], near=True, **given).tolist() == [0]
    with pytest.raises(ValueError, match="applies only to whole documents, and by is .line.: omit it"):
        koel.dedup(["a"], by="line", **given)
