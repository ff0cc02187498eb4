from turngate.line_breaks import unbroken


def test_an_option_stays_whole_at_the_end_of_a_line() -> None:
    """The dashes of an option stay with its name, and what stays whole is never too long for a line."""
    shown = {
        "a-b x--y -- -5 &lt;-&gt;": "a-b x--y -- -5 &lt;-&gt;",
        "(clause set 2027-01)": '(clause set <span class="unbroken">2027-01</span>)',
        "2027-01-02 12027-01": "2027-01-02 12027-01",
        "[-c KEY]": '[<span class="unbroken">-c</span> KEY]',
        "--no-color=x": '<span class="unbroken">--no-color</span>=x',
        f"--{'x' * 30}": f'<span class="unbroken">--{"x" * 21}</span>{"x" * 9}',
    }
    assert {given: unbroken(given) for given in shown} == shown
