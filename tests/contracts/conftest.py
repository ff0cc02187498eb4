from hypothesis import settings

# without a deadline, so that a busy machine doesn't fail them
settings.register_profile("quick", deadline=None, max_examples=60)
settings.load_profile("quick")
