"""Computes something with threads, locks, generators and files, as the program ctrip does
in C. Arguments: STEPS MILLIONS LOG."""
import os
import select
import sys
import threading
import time

steps, millions, log = int(sys.argv[1]), int(sys.argv[2]), open(sys.argv[3], "w")
leave = threading.Semaphore(0)
recursive = threading.RLock()
turn = threading.Condition()
said = threading.Lock()
now_step, working, total = -1, 0, 0
own = threading.local()
WORKERS = 3


def say(text):
    with said:
        print(text, flush=True)


def churn(seed):
    table = {str(i): [seed + i, (seed * i) % 977] for i in range(100)}
    return sum(a * b for a, b in table.values()) % 1000003


def locked(value):
    global total
    with recursive, recursive:
        assert recursive._is_owned()
        time.sleep(0.0003)
        total = (total * 3 + value) % (1 << 61)
    return value * value


def worker(number):
    global working
    own.sum, step = number, 0
    while True:
        with turn:
            turn.wait_for(lambda: now_step >= step)
        own.sum = own.sum * 31 % (1 << 61) + churn(step * WORKERS + number)
        locked(7)
        step += 1
        with turn:
            working -= 1
            turn.notify_all()


def obey():
    while dots := os.read(3, 100):
        for _ in dots:
            leave.release()


def echo():
    for line in sys.stdin:
        say("stdin " + line.rstrip())
    os._exit(0)


def sleeper():
    while True:
        begun = time.monotonic()
        time.sleep(0.02)
        select.select([], [], [], 0.02)
        assert time.monotonic() - begun >= 0.04


spun = []


def spin():
    x = 1
    for _ in range(millions * 1000):
        x = (x * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    spun.append(x)


for f in [obey, echo, sleeper]:
    threading.Thread(target=f, daemon=True).start()
for i in range(WORKERS):
    threading.Thread(target=worker, args=(i,), daemon=True).start()
tight = threading.Thread(target=spin)
tight.start()
total_sum = 0
for i in range(steps):
    leave.acquire()
    with turn:
        working, now_step = WORKERS, i
        turn.notify_all()
        turn.wait_for(lambda: working == 0)
    total_sum = (total_sum * 31 + churn(i) + locked(i)) % (1 << 61)
    brief = threading.Thread(target=locked, args=(i,))
    brief.start()
    brief.join()
    log.write(f"step {i} {total_sum:x}\n")
    log.flush()
    say(f"step {i}")
tight.join()
log.close()
say(f"sum {total_sum ^ spun[0]:x}")
while True:
    time.sleep(1)
