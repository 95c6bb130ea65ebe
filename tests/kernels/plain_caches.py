"""Caches written down as plainly as can be, to hold the real ones against: lists, no cleverness. Each says of every access whether it was a hit."""

from collections.abc import Sequence
from functools import cache


def lru_distances(accesses: Sequence[int]) -> list[int | None]:
    """For each access, how many other blocks were accessed since the last time (None: there was none). An LRU cache of more places has it."""
    stack: list[int] = []
    distances: list[int | None] = []
    for block in accesses:
        distances.append(stack.index(block) if block in stack else None)
        if block in stack:
            stack.remove(block)
        stack.insert(0, block)
    return distances


def clock(accesses: Sequence[int], capacity: int) -> list[bool]:
    """A ring of frames with a mark each and a hand."""
    frames: list[int | None] = [None] * capacity
    marks, hand, hits = [False] * capacity, 0, []
    for block in accesses:
        hits.append(block in frames)
        if block in frames:
            marks[frames.index(block)] = True
            continue
        if None not in frames:
            while marks[hand]:
                marks[hand] = False
                hand = (hand + 1) % capacity
            place = hand
            hand = (hand + 1) % capacity
        else:
            place = frames.index(None)
        frames[place], marks[place] = block, False
    return hits


def lfu(accesses: Sequence[int], capacity: int) -> list[bool]:
    """Counts since the block came; of the fewest, the one accessed the longest ago leaves."""
    counts: dict[int, int] = {}
    last: dict[int, int] = {}
    hits = []
    for time, block in enumerate(accesses):
        hits.append(block in counts)
        if block not in counts and len(counts) == capacity:
            del counts[min(counts, key=lambda held: (counts[held], last[held]))]
        counts[block] = counts.get(block, 0) + 1
        last[block] = time
    return hits


def s3_fifo(accesses: Sequence[int], capacity: int) -> list[bool]:
    """Algorithm 1 of the paper, with one block leaving for each that comes. Queues are lists, the oldest first."""
    small_size = max(capacity // 10, 1)
    main_size = capacity - small_size
    small: list[int] = []
    main: list[int] = []
    ghosts: list[int] = []
    freq: dict[int, int] = {}
    hits = []

    def evict_main() -> None:
        while True:
            block = main.pop(0)
            if freq[block] == 0:
                return
            freq[block] -= 1
            main.append(block)

    def evict_small() -> bool:
        while small:
            block = small.pop(0)
            if freq[block] > 1:
                freq[block] = 0
                main.append(block)
                if len(main) > main_size:
                    evict_main()
                    return True
            else:
                ghosts.append(block)
                while len(ghosts) > main_size:
                    ghosts.pop(0)
                return True
        return False

    for block in accesses:
        hits.append(block in small or block in main)
        if hits[-1]:
            freq[block] = min(freq[block] + 1, 3)
            continue
        if len(small) + len(main) == capacity and not ((len(small) >= small_size or not main) and evict_small()):
            evict_main()
        if block in ghosts:
            ghosts.remove(block)
            main.append(block)
        else:
            small.append(block)
        freq[block] = 0
    return hits


def most_hits(accesses: Sequence[int], capacity: int, may_pass: bool) -> int:
    """The most hits that any choice of who leaves can have, found by trying all of them. `may_pass`: a block need not be taken in."""
    accesses = tuple(accesses)

    @cache
    def best(time: int, held: frozenset[int]) -> int:
        if time == len(accesses):
            return 0
        block = accesses[time]
        if block in held:
            return 1 + best(time + 1, held)
        ways = [best(time + 1, held)] if may_pass else []
        if len(held) < capacity:
            ways.append(best(time + 1, held | {block}))
        else:
            ways += [best(time + 1, held - {leaving} | {block}) for leaving in held]
        return max(ways)

    return best(0, frozenset())
