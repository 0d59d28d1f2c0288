"""What is counted, for Prometheus; each server has its own registry."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    gc_collector,
    generate_latest,
    platform_collector,
    process_collector,
)

from bertwright.serve.batching import Batcher, Watch

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TOKENS = tuple(float(2**n) for n in range(3, 17))


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        process_collector.ProcessCollector(registry=registry)
        platform_collector.PlatformCollector(registry=registry)
        gc_collector.GCCollector(registry=registry)
        self.requests = Counter(
            "bertwright_requests", "Requests", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "bertwright_request_seconds",
            "From headers to reply, of answered requests: those refused at once would hide them",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.tokens = Counter(
            "bertwright_tokens", "Tokens of answered requests", ["model"], registry=registry
        )
        self.generated = Counter(
            "bertwright_generated_tokens",
            "Tokens that were generated",
            ["model"],
            registry=registry,
        )
        self.truncated = Counter(
            "bertwright_truncated_texts", "Texts that were cut", ["model"], registry=registry
        )
        self.batch_tokens = Histogram(
            "bertwright_batch_tokens", "Tokens of a batch", buckets=TOKENS, registry=registry
        )
        self.batch_texts = Histogram(
            "bertwright_batch_texts", "Texts of a batch", buckets=TOKENS, registry=registry
        )
        self.batch_seconds = Histogram(
            "bertwright_batch_seconds", "Seconds of a batch", buckets=SECONDS, registry=registry
        )
        self.dropped = Counter(
            "bertwright_dropped_requests", "Left in the queue", ["reason"], registry=registry
        )
        self.failed = Counter("bertwright_failed_batches", "Failed batches", registry=registry)
        self.swaps = Counter("bertwright_swaps", "Models that were changed", registry=registry)
        self.queued = Gauge("bertwright_queue_texts", "Texts that wait", registry=registry)
        self.queued_tokens = Gauge("bertwright_queue_tokens", "Tokens waiting", registry=registry)
        self._ended: dict[tuple[str, int], tuple[Counter, Histogram | None]] = {}
        """Looking figures up by their labels costs more than counting."""
        self.ready = Gauge("bertwright_ready", "Whether /readyz says yes", registry=registry)

    def count(self, route: str, status: int, seconds: float) -> None:
        """A request that ended."""
        known = self._ended.get((route, status))
        if known is None:
            waited = self.seconds.labels(route) if status < 400 else None
            known = self._ended[route, status] = self.requests.labels(route, str(status)), waited
        known[0].inc()
        if known[1] is not None:
            known[1].observe(seconds)

    def read(self, model: str, tokens: int, truncated: int) -> None:
        """What a model read for a request."""
        self.tokens.labels(model).inc(tokens)
        if truncated:
            self.truncated.labels(model).inc(truncated)

    def follow(self, batcher: Batcher) -> None:
        """Count what a batcher does."""

        def on_batch(items: int, tokens: int, seconds: float) -> None:
            self.batch_texts.observe(items)
            self.batch_tokens.observe(tokens)
            self.batch_seconds.observe(seconds)

        batcher.watch = Watch(
            on_batch, lambda reason: self.dropped.labels(reason).inc(), self.failed.inc
        )
        self.queued.set_function(lambda: len(batcher.waiting))
        self.queued_tokens.set_function(lambda: batcher.tokens)

    def text(self) -> bytes:
        """In the format of Prometheus."""
        return generate_latest(self.registry)
