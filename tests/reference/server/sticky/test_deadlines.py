from turngate_reference.server.sticky.deadlines import MAX_VOID, Deadlines


def test_what_is_due_comes_in_its_order() -> None:
    """By time, and what falls together as it was asked for; also what is asked for while others are done."""
    now, done = [0.0], []
    due = Deadlines(lambda: now[0])
    for name, seconds in (("c", 2.0), ("a", 1.0), ("b", 1.0)):
        due.after(seconds, lambda name=name: done.append(name))  # type: ignore[misc]
    due.after(1.0, lambda: due.after(0.0, lambda: done.append("at once")))
    assert (list(due.ripe()), due.left()) == ([], 1.0)
    now[0] = 1.5
    for what in due.ripe():
        what()
    assert (done, due.left()) == (["a", "b", "at once"], 0.5)


def test_what_is_void_is_neither_waited_for_nor_done_nor_kept() -> None:
    """However many deadlines were void before they were due, those that hold stay, and little else."""
    now, void = [0.0], set()
    due = Deadlines(lambda: now[0])
    assert due.left() is None
    due.after(9.0, lambda: None)
    for number in range(10 * MAX_VOID):
        due.after(5.0, lambda: None, lambda number=number: number in void)  # type: ignore[misc]
        void.add(number)
    assert len(due) <= MAX_VOID
    assert list(due.ripe()) == []
    assert due.left() == 9.0
