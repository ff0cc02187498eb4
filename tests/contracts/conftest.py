from hypothesis import settings

# examples are small; a busy machine must not fail them
settings.register_profile("quick", deadline=None, max_examples=60)
settings.load_profile("quick")
