"""The turnstile lets one in at a time, in order, and those who give up do not block the rest."""

import threading

from labkit.panel.turnstile import Turnstile

HANG_S = 30.0


def never() -> bool:
    return False


def test_who_comes_alone_does_not_wait():
    waited = []
    with Turnstile().turn(lambda: waited.append(1), never) as mine:
        assert mine
    assert waited == []


def test_the_second_is_told_to_wait_and_enters_when_the_first_leaves():
    turnstile, told, entered = Turnstile(), threading.Event(), threading.Event()

    def second() -> None:
        with turnstile.turn(told.set, never) as mine:
            assert mine
            entered.set()

    with turnstile.turn(lambda: None, never):
        thread = threading.Thread(target=second)
        thread.start()
        assert told.wait(HANG_S)
        assert not entered.is_set()
    assert entered.wait(HANG_S)
    thread.join()


def test_they_enter_in_the_order_of_their_coming():
    turnstile, order, threads = Turnstile(), [], []

    def enter(number: int, waiting: threading.Event) -> None:
        with turnstile.turn(waiting.set, never):
            order.append(number)

    with turnstile.turn(lambda: None, never):
        for number in range(5):
            waiting = threading.Event()
            threads.append(threading.Thread(target=enter, args=(number, waiting)))
            threads[-1].start()
            assert waiting.wait(HANG_S)
    for thread in threads:
        thread.join(HANG_S)
    assert order == [0, 1, 2, 3, 4]


def test_who_gives_up_gets_no_turn_and_lets_the_next_one_in():
    turnstile, told, given_up, results = Turnstile(), threading.Event(), threading.Event(), []

    def impatient() -> None:
        with turnstile.turn(told.set, given_up.is_set) as mine:
            results.append(mine)

    with turnstile.turn(lambda: None, never):
        thread = threading.Thread(target=impatient)
        thread.start()
        assert told.wait(HANG_S)
        given_up.set()
        turnstile.nudge()
        thread.join(HANG_S)
        assert results == [False]
    with turnstile.turn(lambda: None, never) as mine:
        assert mine


def test_an_error_inside_gives_the_turn_back():
    turnstile = Turnstile()
    try:
        with turnstile.turn(lambda: None, never):
            raise ValueError("inside")
    except ValueError:
        pass
    with turnstile.turn(lambda: None, never) as mine:
        assert mine


def test_who_cannot_be_told_to_wait_does_not_block_the_others():
    turnstile = Turnstile()

    def fail() -> None:
        raise ValueError("cannot be told")

    with turnstile.turn(lambda: None, never):
        try:
            with turnstile.turn(fail, never):
                raise AssertionError("it entered")
        except ValueError:
            pass
    with turnstile.turn(lambda: None, never) as mine:
        assert mine
