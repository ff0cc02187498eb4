"""What measures, generates and renders; nothing here is a test."""
