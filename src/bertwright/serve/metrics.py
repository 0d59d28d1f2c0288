"""Metrics for Prometheus; each server has a registry of its own."""

from __future__ import annotations

from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    process_collector,
)

from bertwright.serve.engine.batching import Batcher

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TOKENS = tuple(float(2**n) for n in range(3, 17))


class ServerMetrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        process_collector.ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.requests = counter("bertwright_requests", "Requests", ["route", "status"])
        # requests that are refused at once would hide how long the others take
        about = "From headers to reply, of answered requests"
        self.seconds = histogram("bertwright_request_seconds", about, ["route"], buckets=SECONDS)
        self.tokens = counter("bertwright_tokens", "Tokens of answered requests", ["model"])
        self.generated = counter("bertwright_generated_tokens", "Tokens generated", ["model"])
        self.truncated = counter("bertwright_truncated_texts", "Texts that were cut", ["model"])
        unknown = "Words that the model has no vector for"
        self.unknown_words = counter("bertwright_unknown_words", unknown, ["model"])
        self.batch_texts, self.batch_tokens, self.batch_seconds = (
            histogram(f"bertwright_batch_{what}", f"{what.title()} of a batch", buckets=buckets)
            for what, buckets in (("texts", TOKENS), ("tokens", TOKENS), ("seconds", SECONDS))
        )
        self.dropped = counter("bertwright_dropped_requests", "Left in the queue", ["reason"])
        self.failed = counter("bertwright_failed_batches", "Failed batches")
        self.swaps = counter("bertwright_swaps", "Models that were changed")
        self.queued = gauge("bertwright_queue_texts", "Texts that wait")
        self.queued_tokens = gauge("bertwright_queue_tokens", "Tokens waiting")
        self.ready = gauge("bertwright_ready", "Whether /readyz says yes")

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request that ended."""
        self.requests.labels(route, str(status)).inc()
        if status < 400:
            self.seconds.labels(route).observe(seconds)

    def read(self, model: str, tokens: int, truncated: int, unknown: int | None = None) -> None:
        """Count what a model read for a request; `unknown` words, where its tokens are words."""
        self.tokens.labels(model).inc(tokens)
        if truncated:
            self.truncated.labels(model).inc(truncated)
        if unknown is not None:
            self.unknown_words.labels(model).inc(unknown)

    def follow(self, batcher: Batcher) -> None:
        """Count what a batcher does from now on."""

        def on_batch(items: int, tokens: int, seconds: float) -> None:
            self.batch_texts.observe(items)
            self.batch_tokens.observe(tokens)
            self.batch_seconds.observe(seconds)

        batcher.on_batch, batcher.on_failed = on_batch, self.failed.inc
        batcher.on_dropped = lambda reason: self.dropped.labels(reason).inc()
        self.queued.set_function(lambda: len(batcher.waiting))
        self.queued_tokens.set_function(lambda: batcher.tokens)

    def text(self) -> bytes:
        """Return the metrics in the format of Prometheus."""
        return generate_latest(self.registry)
