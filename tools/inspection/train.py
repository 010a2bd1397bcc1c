#!/usr/bin/env python3
"""Trains the model of the inspection service on the corpus and writes model.toml.

Three steps: classes of bytes, by merging those whose pairs say the same about the type of data; tables that begin as logarithms of how
often code and clean data have their entries; then stochastic gradient descent on the verdicts of packets, half of the clean ones
among those that the model takes for code the most. The threshold follows from the packets of the split `validate`.

    target/inspection/venv/bin/python tools/inspection/train.py --minutes 8
"""

import argparse
import hashlib
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy

import model
import packets

# Groups of generators whose pairs of bytes are told apart when classes are made; each kind of processor is one, too.
GROUPS = (
    ("csv", "json", "sql", "log", "source", "xml", "html", "prose", "base64"), ("float16", "float32", "float64"),
    ("int8", "int16", "int32", "int64"), ("records", "database", "pickle", "fill"),
    ("random", "ciphertext", "gzip", "zstd", "png", "jpeg"), ("bmp", "pdf"), ("installed",),
)
# Sizes of the training packets end here, which halves the time.
LARGEST = 2_048
CLEAN, CODE = 60_000, 24_000
BATCH = 32
# A false alarm is worse than a miss.
CLEAN_WEIGHT = 4.0
# The share of the clean packets of `validate` that may be flagged: half of what is allowed, because generators differ.
FALSE_POSITIVES = 0.0005


def pair_counts(rows, lengths):
    """How often each byte follows each other one; every packet weighs the same."""
    counts = numpy.zeros(1 << 16)
    for at in range(0, len(rows), 1_000):
        part, length = rows[at:at + 1_000].astype(numpy.int32), lengths[at:at + 1_000, None]
        inside = numpy.arange(1, part.shape[1])[None, :] < length
        weights = numpy.broadcast_to(1.0 / length, inside.shape)
        counts += numpy.bincount((part[:, :-1] << 8 | part[:, 1:])[inside], weights[inside], minlength=1 << 16)
    return (counts / counts.sum()).reshape(256, 256)


def merged(counts, classes):
    """Class of each byte. `counts` has rows of bytes, columns, and groups of data; those two rows become one whose union loses the least
    information about the group, until there are `classes` rows."""
    counts = counts.copy()
    members = [[byte] for byte in range(256)]

    def information(table):
        total = table.sum(-1, keepdims=True)
        return (table * numpy.log(table / total)).sum((-1, -2))

    own = information(counts)
    loss = numpy.full((256, 256), numpy.inf)
    for byte in range(1, 256):
        loss[byte, :byte] = loss[:byte, byte] = own[byte] + own[:byte] - information(counts[byte] + counts[:byte])
    for _ in range(256 - classes):
        first, second = numpy.unravel_index(numpy.argmin(loss), loss.shape)
        counts[first] += counts[second]
        members[first] += members[second]
        members[second] = []
        loss[second] = loss[:, second] = numpy.inf
        own[first] = information(counts[first])
        others = [byte for byte in range(256) if members[byte] and byte != first]
        loss[first, others] = loss[others, first] = own[first] + own[others] - information(counts[first] + counts[others])
    result = numpy.zeros(256, dtype=numpy.int32)
    for number, bytes_of in enumerate(filter(None, members)):
        result[bytes_of] = number
    return result


def make_classes(clean, code):
    rows, lengths, names = clean
    groups = [pair_counts(rows[chosen], lengths[chosen]) for group in GROUPS if (chosen := numpy.isin(names, group)).any()]
    rows, lengths, names = code
    processors = numpy.array([name.split("/")[1] for name in names])
    groups += [pair_counts(rows[chosen], lengths[chosen]) for name in sorted(set(processors)) if (chosen := processors == name).any()]
    counts = numpy.stack(groups, -1) + 1e-9
    turned = counts.transpose(1, 0, 2)
    made = (merged(counts, 1 << model.BEFORE_BITS), merged(turned, 1 << model.OWN_BITS), merged(counts + turned, 1 << model.KIND_BITS))
    return model.Classes(*map(jnp.asarray, made))


def first_tables(clean, code, classes):
    """Logarithms of ratios. The tables see the same bytes, so each has its share of the evidence."""
    sizes = (model.PAIRS, *[model.SKIPS] * len(model.DISTANCES))
    counts = []
    for rows, lengths, _ in (clean, code):
        total = [numpy.zeros(size) for size in sizes]
        for at in range(0, 12_000, 500):
            part, length = rows[at:at + 500], lengths[at:at + 500, None]
            found, repeated = model.addresses(jnp.asarray(part), classes)
            inside = (numpy.arange(part.shape[1])[None, :] < length) & ~numpy.asarray(repeated)
            weights = numpy.broadcast_to(1.0 / length, inside.shape)[inside]
            for table, address, size in zip(total, found, sizes, strict=True):
                table += numpy.bincount(numpy.asarray(address)[inside], weights, minlength=size + 1)[:size]
        counts.append([table / table.sum() for table in total])
    share = 1.5 / len(sizes)
    ratios = [numpy.log2((code + 1e-6) / (clean + 1e-6)) for clean, code in zip(*counts, strict=True)]
    return [jnp.asarray(share * numpy.clip(ratio, -6, 6) - 0.2, dtype=jnp.float32) for ratio in ratios]


def descend(clean, code, classes, tables, minutes):
    """Stochastic gradient descent with Adam. Returns tables and the score of a repeated byte."""
    state = {"tables": tables, "repeated": jnp.float32(-0.5), "threshold": jnp.float32(60.0), "slope": jnp.float32(0.0)}
    rates = {"tables": 0.04, "repeated": 0.02, "threshold": 0.4, "slope": 0.02}

    def loss(state, rows, lengths, is_code):
        best = model.best_runs(model.byte_scores(state["tables"], state["repeated"], rows, lengths, classes))
        margin = 0.05 * jnp.exp(state["slope"]) * (best - state["threshold"])
        return jnp.mean(jnp.where(is_code, 1.0, CLEAN_WEIGHT) * jnp.logaddexp(0.0, jnp.where(is_code, -margin, margin)))

    @jax.jit
    def step(state, first, second, number, rate, rows, lengths, is_code):
        value, gradient = jax.value_and_grad(loss)(state, rows, lengths, is_code)
        first = jax.tree.map(lambda mean, new: 0.9 * mean + 0.1 * new, first, gradient)
        second = jax.tree.map(lambda mean, new: 0.99 * mean + 0.01 * new * new, second, gradient)

        def moved(old, mean, square, scale):
            change = mean / (1 - 0.9**number) / (jnp.sqrt(square / (1 - 0.99**number)) + 1e-8)
            return old - rate * scale * change

        state = {
            name: jax.tree.map(lambda *three, scale=rates[name]: moved(*three, scale), state[name], first[name], second[name])
            for name in state
        }
        return state, first, second, value

    first = second = jax.tree.map(jnp.zeros_like, state)
    chance = numpy.random.default_rng(2)
    hard, number, begin, mean = chance.permutation(CLEAN)[:3_000], 0, time.monotonic(), 0.0
    while (passed := (time.monotonic() - begin) / 60 / minutes) < 1:
        if number and number % 250 == 0:
            pool = chance.permutation(CLEAN)[:5_000]
            found = model.score(state["tables"], state["repeated"], classes, clean[0][pool], clean[1][pool])
            hard = pool[numpy.argsort(-found)[:300]]
            print(f"{number} steps, {passed:.0%}: loss {mean:.4f}, threshold {float(state['threshold']):.1f} bits, "
                  f"best clean {numpy.sort(found)[-5:].round(1)}", flush=True)
        chosen = numpy.concatenate([chance.integers(0, CLEAN, BATCH), chance.choice(hard, BATCH)])
        coded = chance.integers(0, CODE, 2 * BATCH)
        rows = numpy.concatenate([clean[0][chosen], code[0][coded]])
        lengths = numpy.concatenate([clean[1][chosen], code[1][coded]])
        number += 1
        state, first, second, value = step(state, first, second, number, 1.02 - passed, rows, lengths, numpy.arange(4 * BATCH) >= 2 * BATCH)
        mean = 0.98 * mean + 0.02 * float(value) if mean else float(value)
    return state["tables"], state["repeated"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8, help="time of the descent (default: 8)")
    options = parser.parse_args()
    chance = numpy.random.default_rng(1)
    codes, data = packets.Corpus("train", "code"), packets.Corpus("train", "clean")
    clean = packets.batch(lambda: packets.clean(data, chance, LARGEST), CLEAN, LARGEST)
    whole = packets.batch(lambda: packets.whole(codes, chance, LARGEST), CODE // 2, LARGEST)
    inside = packets.batch(lambda: packets.embedded(codes, data, chance, LARGEST), CODE // 2, LARGEST)
    classes = make_classes(clean, whole)
    tables = first_tables(clean, whole, classes)
    code = tuple(numpy.concatenate(both) for both in zip(whole[:2], inside[:2], strict=True))
    tables, repeated = descend(clean, code, classes, tables, options.minutes)

    def whole_numbers(values):
        return numpy.clip(numpy.rint(numpy.asarray(values) * model.SCALE), -model.LARGEST, model.LARGEST).astype(numpy.int32)

    found = model.Model(classes, [whole_numbers(table) for table in tables], int(whole_numbers(repeated)), 0)
    others = packets.Corpus("validate", "clean")
    rows, lengths, _ = packets.batch(lambda: packets.clean(others, chance), 40_000)
    threshold = int(numpy.quantile(found.score(rows, lengths), 1 - FALSE_POSITIVES)) + 1
    manifest = hashlib.sha256(pathlib.Path(__file__).with_name("manifest.tsv").read_bytes()).hexdigest()
    model.Model(found.classes, found.tables, found.repeated, threshold).write(manifest)
    print(f"threshold {threshold}, a repeated byte {found.repeated}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
