"""What a probe saw and judged, as events on disk."""
