from turngate_reference.server.orchestrator.deadlines import Deadlines


def test_what_is_due_comes_in_its_order() -> None:
    """By time, and what falls together as it was asked for; also what is asked for while others are done."""
    now, done = [0.0], []
    due = Deadlines(lambda: now[0])
    for name, seconds in (("c", 2.0), ("a", 1.0), ("b", 1.0)):
        due.set(name, seconds, lambda name=name: done.append(name))  # type: ignore[misc]
    due.set("d", 1.0, lambda: due.set("e", 0.0, lambda: done.append("at once")))
    assert (list(due.ripe()), due.left()) == ([], 1.0)
    now[0] = 1.5
    for _, action in due.ripe():
        action()
    assert (done, due.left()) == (["a", "b", "at once"], 0.5)


def test_a_key_has_one_deadline() -> None:
    """The last one that was set holds; none is waited for once it is dropped."""
    now, done = [0.0], []
    due = Deadlines(lambda: now[0])
    assert due.left() is None
    due.set("a", 1.0, lambda: done.append("early"))
    due.set("a", 5.0, lambda: done.append("late"))
    due.set("b", 1.0, lambda: done.append("dropped"))
    due.drop("b")
    due.drop("c")
    assert due.left() == 5.0
    now[0] = 5.0
    for key, action in due.ripe():
        assert key == "a"
        action()
    assert (done, due.left()) == (["late"], None)
