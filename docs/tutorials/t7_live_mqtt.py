"""
7. Live with MQTT
=================

Two instruments publish what they read to an MQTT broker. ``coad watch`` listens, pairs their clocks, applies a model that was learned
from a recording, and publishes alarms. This page does all of it on one machine: a recording, a model, a broker, a watch, five minutes
of new readings, and a person who answers an alarm.

Beside ``coad[all]`` it needs a broker. Any will do; here it is `amqtt <https://amqtt.readthedocs.io>`_, because ``pip install amqtt`` brings
one that runs everywhere.
"""

# %%
# A recording
# -----------
#
# Simulated: a motor current, fifty readings a second, and a vibration, forty a second, as in :doc:`t3_two_clocks`. At an event the
# current dips and the vibration rings, at the same time; each does so alone as often. The watch will look at new readings of the same two
# instruments, so they are made by a function.

import atexit
import json
import shlex
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import paho.mqtt.client as mqtt
import pandas as pd


def sh(command):
    """Run a command as a terminal would, and print what it prints."""
    print("$", command)
    print(subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout)


def bumps(t, centres, width):
    """A bump of height 1 at each of the centres."""
    return np.exp(-0.5 * ((t[:, None] - centres) / width) ** 2).sum(axis=1)


def readings(start, seconds, seed):
    """A table of each instrument, and when the events are."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.permutation(np.arange(5, seconds - 5, 4))[: seconds // 10])
    events, only_s, only_q = times[::3], times[1::3], times[2::3]
    t_s = np.arange(0, seconds, 1 / 50) + rng.normal(0, 0.001, seconds * 50)
    t_q = np.arange(0.007, seconds, 1 / 40) + rng.normal(0, 0.001, seconds * 40)
    dips = bumps(t_s, np.concatenate([events, only_s]), 0.2)
    rings = bumps(t_q, np.concatenate([events, only_q]), 0.3)
    current = 18 + np.sin(2 * np.pi * 1.3 * t_s) + 0.4 * rng.normal(size=len(t_s)) - 3.5 * dips
    vibration = 0.5 * rng.normal(size=len(t_q)) + 2.5 * rings * np.sin(2 * np.pi * 11 * t_q)
    stamps = [(start + pd.to_timedelta(t, unit="s")).round("us") for t in (t_s, t_q)]
    s = pd.DataFrame({"time": stamps[0], "current": current.round(4)})
    q = pd.DataFrame({"time": stamps[1], "vibration": vibration.round(4)})
    return s, q, start + pd.to_timedelta(events, unit="s")


current, vibration, _ = readings(pd.Timestamp("2026-03-02 08:00"), 1200, seed=0)
current.to_csv("current.csv", index=False)
vibration.to_csv("vibration.csv", index=False)

# %%
# A model
# -------
#
# Learned from files. Whatever ``coad find``, ``fit``, ``modes`` or ``thresholds`` leave in a folder can be watched with.

shutil.rmtree("line", ignore_errors=True)  # of an earlier run of this page
sh(
    "coad find --s-file current.csv --q-file vibration.csv --s current --q vibration "
    "--time time --tolerance 20ms --window 1s --out line --no-report"
)

# %%
# A broker
# --------
#
# In a terminal: ``amqtt -c broker.json``, and leave it running.


def until(condition, seconds=30):
    """Wait for something that another process does."""
    for _ in range(seconds * 20):
        if condition():
            return
        time.sleep(0.05)
    raise TimeoutError("it did not happen")


with socket.socket() as free:  # a port that nobody uses; 1883 is the usual one
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
Path("broker.json").write_text(
    json.dumps({"listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}}})
)
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
broker = subprocess.Popen(["amqtt", "-c", "broker.json"], **quiet)
_ = atexit.register(broker.kill)  # should anything below go wrong

heard = []  # what the control room hears: the alarms that the watch publishes
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.on_message = lambda _client, _data, message: heard.append(json.loads(message.payload))
client.on_connect = lambda client, *_: client.subscribe("coad/alarm/#", qos=1)
client.connect_async("127.0.0.1", port)
client.reconnect_delay_set(1, 1)
client.loop_start()
until(client.is_connected)

# %%
# The watch
# ---------
#
# Its settings are a file. The model has two inputs with a clock each, so there are two streams: ``s`` and ``witness``. ``{stream}`` in the topic
# says which of them a message belongs to. Alarms go back to the broker.

Path("watch.toml").write_text(
    f"""
[source]
kind = "mqtt"
port = {port}
topics = ["line/{{stream}}"]
client_id = "coad-line"          # with a name, the broker keeps messages while the watch is away

[time]
lateness = "500ms"               # how long a reading may come after a later one

[[output]]
kind = "mqtt"
port = {port}
topic = "coad"
kinds = ["alarm"]
"""
)
sh("coad watch line --config watch.toml --check")

# %%
# In a terminal: ``coad watch line --config watch.toml``. It runs until Ctrl-C.

watch = subprocess.Popen(
    ["coad", "watch", "line", "--config", "watch.toml"],
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
)
_ = atexit.register(watch.kill)

# %%
# New readings
# ------------
#
# Each instrument publishes a message a second: a JSON object with times and values. Here five minutes of them come as fast as the
# broker takes them; the watch goes by the stamps of the readings, not by its own clock.

from coad.live import Store

s, q, events = readings(pd.Timestamp("2026-03-03 14:00"), 300, seed=1)


def publish(topic, table):
    """The rows of a second as one message."""
    columns = {name: table[name].tolist() for name in table}
    columns["time"] = [str(stamp) for stamp in table["time"]]
    return client.publish(topic, json.dumps(columns), qos=1)


seconds_s = [one for _, one in s.groupby(s["time"].dt.floor("1s"))]
seconds_q = [one for _, one in q.groupby(q["time"].dt.floor("1s"))]
store = Store("line/watch.db")  # what the watch keeps; any program may read it meanwhile


def it_listens():
    publish("line/s", seconds_s[0])  # readings that come twice count once
    return store.counters().get("samples", 0) > 0


until(it_listens)
for one_s, one_q in zip(seconds_s, seconds_q):
    publish("line/s", one_s)
    publish("line/witness", one_q).wait_for_publish(10)

end = q["time"].iloc[-1] - pd.Timedelta("1s")
until(lambda: (store.watermark() or 0) > end.value)
print(f"{store.counters()['samples']:,} readings taken in, {store.counters()['flagged']} windows flagged")

# %%
# Three minutes of both instruments, and the windows that the watch flagged while they came. Most dips without ringing, and most ringing without
# a dip, raise nothing.

found = [
    pd.to_datetime([one["start"], one["end"]]) - [pd.Timedelta("1s"), pd.Timedelta(0)]
    for one in store.events()
]
fig, axes = plt.subplots(2, 1, sharex=True)
left, right = pd.Timestamp("2026-03-03 14:01"), pd.Timestamp("2026-03-03 14:04")
for ax, table, name, colour in ((axes[0], s, "current", "C0"), (axes[1], q, "vibration", "C1")):
    part = table[table["time"].between(left, right)]
    ax.plot(part["time"], part[name], lw=0.5, color=colour)
    ax.set(ylabel=name, xlim=(left, right))
    for first, last in found:
        ax.axvspan(first, last, color="C2", alpha=0.35, lw=0)
fig.autofmt_xdate()
plt.show()

met = sum(any(first <= event <= last for first, last in found) for event in events)
print(f"{met} of {len(events)} events are in one of {len(found)} flagged stretches")

# %%
# Alarms, and an answer
# ---------------------
#
# An alarm is not an event: while nobody has answered it, further events of the same source join it, so that a bad hour is one line and
# not forty. The control room heard of it by MQTT, where the last state of each alarm is retained for those who come later.

until(lambda: heard)
print(json.dumps(heard[0], indent=1)[:420], "...")

# %%
# A person acknowledges it, by name. The journal keeps that, and everybody who listens hears it.

(alarm,) = [one for one in store.alarms() if one["kind"] == "event"]
print(f"{alarm['state']}: {len(alarm['events'])} events in it")
store.act(alarm["key"], "acknowledge", "Ada", "tool changed")
until(lambda: heard[-1]["body"]["acknowledged"])
last = heard[-1]["body"]
print(f"{last['state']} by {last['person']}: {last['note']}")

# %%
# The control-room page does the same with the mouse: add ``[page]`` and ``port = 8320`` to the settings.
#
# Stop
# ----
#
# Ctrl-C ends the watch after the step that is under way, and it says what there was. Started again, it goes on where it was; after
# ``kill -9`` too.

watch.send_signal(signal.SIGINT)
print(watch.communicate(timeout=30)[0])
client.loop_stop()
broker.terminate()
store.close()

# %%
# Kafka, EPICS and growing files are other kinds of source, and files are replayed by the same engine: :doc:`/live-sources`. Gates, triggers,
# many stations with one witness, and drift: :doc:`/live`.
