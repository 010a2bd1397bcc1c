#!/usr/bin/env python3
"""Measures the model of the inspection service on packets of the split `test`, with Wilson intervals of 95 %.

    target/inspection/venv/bin/python tools/inspection/evaluate.py --clean 100000 --code 40000 [--json FILE]
"""

import argparse
import json
import math
import sys

import numpy

import data as generators
import model
import packets

SIZES = ((64, 128), (128, 256), (256, 512), (512, 1_024), (1_024, 4_097))

# Generators of each type that `--generators` makes.
GENERATORS = 8


def wilson(hits, count):
    """A share with its interval of 95 %."""
    if not count:
        return {"rate": None, "of": 0}
    z, share = 1.959964, hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return {"rate": share, "low": max(middle - half, 0.0), "high": min(middle + half, 1.0), "hits": int(hits), "of": int(count)}


def by(flagged, groups):
    return {str(name): wilson(flagged[groups == name].sum(), (groups == name).sum()) for name in sorted(set(groups))}


def by_size(flagged, lengths):
    return {f"{low}..{high}": wilson(flagged[(low <= lengths) & (lengths < high)].sum(), ((low <= lengths) & (lengths < high)).sum()) for low, high in SIZES}


def measure(draw, count, found, unit=20_000):
    """Verdicts on `count` packets, with sizes and generators."""
    scores, lengths, names = [], [], []
    for _ in range(0, count, unit):
        rows, length, name = packets.batch(draw, min(unit, count - sum(map(len, scores))))
        scores.append(found.score(rows, length))
        lengths.append(length)
        names += name
    scores, lengths, names = numpy.concatenate(scores), numpy.concatenate(lengths), numpy.array(names)
    flagged = scores >= found.threshold
    result = {"all": wilson(flagged.sum(), count), "by_size": by_size(flagged, lengths), "by_generator": by(flagged, names)}
    return result, scores


def text(name, part):
    line = lambda of: f"{of['rate']:8.3%} [{of['low']:.3%}, {of['high']:.3%}] of {of['of']}"  # noqa: E731
    rows = [f"{name}: {line(part['all'])}"]
    rows += [f"    {size:<18} {line(of)}" for size, of in part["by_size"].items() if of["of"]]
    rows += [f"    {generator:<18} {line(of)}" for generator, of in part["by_generator"].items() if name != "clean" or of["hits"]]
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clean", type=int, default=100_000, metavar="N", help="clean packets")
    parser.add_argument("--code", type=int, default=40_000, metavar="N", help="packets of either kind with code")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--generators", metavar="NAME", help="make the seeded clean data anew, by generators that are not in the corpus")
    parser.add_argument("--split", default="test", choices=["validate", "test"])
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    options = parser.parse_args()
    chance = numpy.random.default_rng(options.seed)
    code, data = packets.Corpus(options.split, "code"), packets.Corpus(options.split, "clean")
    if options.generators:
        for name in generators.TYPES:
            data.replace(name, [generators.made(name, f"{options.generators}{index}") for index in range(GENERATORS)])
    found = model.Model.read()
    result, scores = {}, {}
    for name, draw in packets.kinds(code, data, chance).items():
        count = options.clean if name == "clean" else options.code
        result[name], scores[name] = measure(draw, count, found)
        print(text(name, result[name]), flush=True)
    # What the same tables reach with the threshold that gives exactly this share of false positives on these packets.
    for share in (0.001, 0.01):
        bound = numpy.quantile(scores["clean"], 1 - share)
        print(f"at {share:.1%} false positives (score above {bound:.0f}): whole {(scores['whole'] > bound).mean():.2%}, "
              f"embedded {(scores['embedded'] > bound).mean():.2%}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
