#!/usr/bin/env python3
"""Trains, on the same corpus, a network of the form that BALBOA publishes, and measures it on the same packets as evaluate.py.

512 bits of a beat -> 32 -> 64 -> 64 -> 1, ternary weights, no bias, the last layer not quantised; a packet is flagged if one of its
beats is. Partly filled beats are skipped, as there. Weights are ternary in the forward pass only (straight-through estimator).
"""

import argparse
import sys
import time

import jax
import jax.numpy as jnp
import numpy

import evaluate
import packets

LAYERS = (512, 32, 64, 64, 1)
BEAT = 64
BATCH = 2_048


def ternary(weights):
    bound = 0.7 * jnp.mean(jnp.abs(weights))
    scale = jnp.mean(jnp.abs(weights))
    hard = jnp.where(jnp.abs(weights) > bound, jnp.sign(weights), 0.0) * scale
    return weights + jax.lax.stop_gradient(hard - weights)


@jax.jit
def logits(weights, beats):
    values = jnp.unpackbits(beats, axis=-1).astype(jnp.float32)
    for layer in weights[:-1]:
        values = jax.nn.relu(values @ ternary(layer))
    return (values @ weights[-1])[..., 0]


def beats_of(corpus, chance, count):
    """Whole beats at any alignment."""
    rows = numpy.zeros((count, BEAT), dtype=numpy.uint8)
    for row in rows:
        part, _ = corpus.draw(chance, BEAT)
        row[:len(part)] = part
    return rows


def packet_scores(weights, rows, lengths, unit=2_000):
    found = []
    for at in range(0, len(rows), unit):
        beats = rows[at:at + unit].reshape(-1, packets.LARGEST // BEAT, BEAT)
        whole = (numpy.arange(packets.LARGEST // BEAT)[None, :] + 1) * BEAT <= lengths[at:at + unit, None]
        found.append(numpy.where(whole, numpy.asarray(logits(weights, beats)), -numpy.inf).max(1))
    return numpy.concatenate(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2)
    options = parser.parse_args()
    chance = numpy.random.default_rng(3)
    data = beats_of(packets.Corpus("train", "clean"), chance, 300_000)
    code = beats_of(packets.Corpus("train", "code"), chance, 300_000)
    weights = [jnp.asarray(chance.normal(0, (2 / width) ** 0.5, (width, out)), dtype=jnp.float32) for width, out in zip(LAYERS, LAYERS[1:])]

    def loss(weights, beats, is_code):
        margin = logits(weights, beats)
        return jnp.mean(jnp.logaddexp(0.0, jnp.where(is_code, -margin, margin)))

    @jax.jit
    def step(weights, first, second, number, rate, beats, is_code):
        value, gradient = jax.value_and_grad(loss)(weights, beats, is_code)
        first = jax.tree.map(lambda mean, new: 0.9 * mean + 0.1 * new, first, gradient)
        second = jax.tree.map(lambda mean, new: 0.999 * mean + 0.001 * new * new, second, gradient)
        weights = jax.tree.map(
            lambda old, mean, square: old - rate * mean / (1 - 0.9**number) / (jnp.sqrt(square / (1 - 0.999**number)) + 1e-8), weights, first, second
        )
        return weights, first, second, value

    first = second = jax.tree.map(jnp.zeros_like, weights)
    number, begin, is_code = 0, time.monotonic(), numpy.arange(2 * BATCH) >= BATCH
    while (passed := (time.monotonic() - begin) / 60 / options.minutes) < 1:
        number += 1
        beats = numpy.concatenate([data[chance.integers(0, len(data), BATCH)], code[chance.integers(0, len(code), BATCH)]])
        weights, first, second, value = step(weights, first, second, number, 0.004 * (1.02 - passed), beats, is_code)
    print(f"{number} steps of {2 * BATCH} beats, loss {float(value):.3f}")

    code, data = packets.Corpus("test", "code"), packets.Corpus("test", "clean")
    beats = {"clean": beats_of(data, chance, 50_000), "code": beats_of(code, chance, 50_000)}
    for name, rows in beats.items():
        print(f"beats of {name} flagged: {(numpy.asarray(logits(weights, rows)) > 0).mean():.2%}")
    chance = numpy.random.default_rng(7)
    draws = {"clean": (lambda: packets.clean(data, chance), 100_000), "whole": (lambda: packets.whole(code, chance), 20_000),
             "embedded": (lambda: packets.embedded(code, data, chance), 20_000)}
    scores = {}
    for name, (draw, count) in draws.items():
        parts = [packet_scores(weights, *packets.batch(draw, 20_000)[:2]) for _ in range(count // 20_000)]
        scores[name] = numpy.concatenate(parts)
        share = evaluate.wilson((scores[name] > 0).sum(), count)
        print(f"packets {name} flagged: {share['rate']:.2%} [{share['low']:.2%}, {share['high']:.2%}] of {count}")
    bound = numpy.quantile(scores["clean"], 0.999)
    print(f"at 0.1% false positives: whole {(scores['whole'] > bound).mean():.2%}, embedded {(scores['embedded'] > bound).mean():.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
