"""MQTT against a real Mosquitto, Kafka against librdkafka's mock brokers; both on the loopback address."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from coad.exceptions import InputError
from coad.live.protocols import OutputError, Record, Wanted

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
WANTED = Wanted({"K01": ("amplitude", "phase"), "K02": ("amplitude", "phase"), "witness": ("x",)})
RECORDS = [
    Record(1, "event", "e1", "K01", 10**18, {"score": 0.5}),
    Record(2, "alarm", "a1", "K01", 10**18, {"state": "raised"}),
    Record(3, "heartbeat", "h1", "", 10**18, {}),
]


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"did not come true in {seconds} s"
        time.sleep(0.02)


def collect(reading, n_samples, seconds=30):
    """Chunks with that many samples in all."""
    found, end = [], time.monotonic() + seconds
    while sum(map(len, found)) < n_samples:
        chunk = next(reading)
        found += [chunk] if chunk is not None else []
        assert time.monotonic() < end, f"{sum(map(len, found))} of {n_samples} samples in {seconds} s"
    return found


class Mosquitto:
    """A broker of our own, which can be stopped and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.file = folder / "mosquitto.conf"
        self.file.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self.file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self.answers)

    def answers(self) -> bool:
        assert self.process.poll() is None, "mosquitto ended at once"
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def mosquitto(tmp_path):
    pytest.importorskip("paho.mqtt", reason="MQTT needs paho-mqtt: pip install 'coad[mqtt]'")
    if MOSQUITTO is None:
        pytest.skip("no mosquitto to test with (Debian: apt-get install mosquitto)")
    broker = Mosquitto(tmp_path)
    yield broker
    broker.stop()


@pytest.fixture
def publisher(mosquitto):
    from coad.live.sources.mqtt import Broker, connect

    client = connect(Broker(port=mosquitto.port))
    client.loop_start()
    until(client.is_connected)
    yield client
    client.disconnect()
    client.loop_stop()


@pytest.fixture
def mqtt_source(mosquitto):
    from coad.live.sources.mqtt import MqttSource, MqttSourceSettings

    topics = ["rf/{stream}/{column}", "rf/{stream}", "beam"]
    source = MqttSource(MqttSourceSettings(port=mosquitto.port, topics=topics), WANTED)
    yield source
    source.close()


def test_mqtt_brings_numbers_and_objects_and_counts_what_is_malformed(mqtt_source, publisher):
    reading = mqtt_source.chunks()
    until(lambda: next(reading) is None and mqtt_source.counters().get("connects"))
    for k in range(500):
        publisher.publish("rf/K01/amplitude", str(k), qos=1)
    publisher.publish("rf/K02", json.dumps({"time": 1.7e9, "amplitude": 5, "phase": 6}), qos=1)
    publisher.publish("rf/K02", b"\xff{", qos=1)
    publisher.publish("rf/K99/amplitude", "1", qos=1)
    publisher.publish("beam", json.dumps({"time": [1.7e9, 1.7e9 + 1], "x": [7, 8]}), qos=1)
    found = collect(reading, 503)
    amplitude = [chunk.columns["amplitude"] for chunk in found if chunk.stream == "K01"]
    assert np.concatenate(amplitude).tolist() == list(range(500))
    (second,) = [chunk for chunk in found if chunk.stream == "K02"]
    assert second.time.tolist() == [1_700_000_000 * 10**9]
    (witness,) = [chunk for chunk in found if chunk.stream == "witness"]
    assert witness.columns["x"].tolist() == [7, 8]
    counts = mqtt_source.counters()
    assert (counts["received"], counts["malformed"], counts["unknown"]) == (504, 1, 1)
    assert all(mqtt_source.connected().values())


def test_mqtt_comes_back_after_the_broker_was_away(mqtt_source, mosquitto):
    from coad.live.sources.mqtt import Broker, connect

    reading = mqtt_source.chunks()
    until(lambda: next(reading) is None and all(mqtt_source.connected().values()))
    mosquitto.stop()
    until(lambda: next(reading) is None and not any(mqtt_source.connected().values()))
    mosquitto.start()
    until(lambda: next(reading) is None and mqtt_source.counters()["connects"] == 2, 60)
    client = connect(Broker(port=mosquitto.port))
    client.loop_start()
    client.publish("rf/K01/phase", "3", qos=1)
    assert collect(reading, 1)[0].columns["phase"].tolist() == [3]
    client.disconnect()
    client.loop_stop()


def test_a_full_queue_loses_the_oldest_and_counts_them(mosquitto, publisher):
    from coad.live.sources.mqtt import MqttSource, MqttSourceSettings

    settings = MqttSourceSettings(port=mosquitto.port, topics=["rf/{stream}/{column}"], queue_size=10)
    source = MqttSource(settings, WANTED)
    try:
        reading = source.chunks()
        until(lambda: next(reading) is None and source.counters().get("connects"))
        for k in range(100):
            publisher.publish("rf/K01/phase", str(k), qos=1)
        until(lambda: source.counters().get("received") == 100)
        found = collect(reading, 10)
        assert np.concatenate([chunk.columns["phase"] for chunk in found]).tolist() == list(range(90, 100))
        assert source.counters()["dropped"] == 90
    finally:
        source.close()


def test_records_go_to_mqtt_and_a_late_listener_knows_the_alarm(mosquitto, publisher):
    from coad.live.outputs.mqtt import MqttOutput, MqttOutputSettings

    output = MqttOutput(
        MqttOutputSettings(
            port=mosquitto.port, topic="plant", kinds=["event", "alarm", "heartbeat"], timeout_s=30
        )
    )
    try:
        output.write(RECORDS)
        heard = {}
        publisher.on_message = lambda _client, _data, message: heard.update({message.topic: message.payload})
        publisher.subscribe("plant/#", 1)
        until(lambda: heard)
        assert list(heard) == ["plant/alarm/K01"], "only alarms are retained"
        assert json.loads(heard["plant/alarm/K01"])["body"] == {"state": "raised"}
        output.write([RECORDS[2]])
        until(lambda: "plant/heartbeat/all" in heard)
    finally:
        output.close()


def test_an_mqtt_output_without_a_broker_says_so_and_sends_later(mosquitto):
    from coad.live.outputs.mqtt import MqttOutput, MqttOutputSettings

    mosquitto.stop()
    output = MqttOutput(MqttOutputSettings(port=mosquitto.port, timeout_s=0.3))
    try:
        with pytest.raises(OutputError, match=f"no MQTT broker at 127.0.0.1:{mosquitto.port}"):
            output.write(RECORDS)
        mosquitto.start()
        until(output._client.is_connected, 60)
        output.write(RECORDS)
    finally:
        output.close()


def test_a_topic_with_half_a_level_in_braces_is_refused():
    pytest.importorskip("paho.mqtt", reason="MQTT needs paho-mqtt: pip install 'coad[mqtt]'")
    from coad.live.sources.mqtt import topic_pattern

    with pytest.raises(InputError, match="a whole level"):
        topic_pattern("rf/station-{stream}/x")


@pytest.fixture
def brokers():
    """The address of mock brokers, which live as long as the client that made them."""
    kafka = pytest.importorskip("confluent_kafka", reason="Kafka needs it: pip install 'coad[kafka]'")
    maker = kafka.Producer({"test.mock.num.brokers": "1", "bootstrap.servers": "none"})
    address = next(iter(maker.list_topics(timeout=30).brokers.values()))
    yield f"{address.host}:{address.port}"
    maker.flush(5)


def produce(brokers, topic, values):
    import confluent_kafka as kafka

    producer = kafka.Producer({"bootstrap.servers": brokers})
    for key, value in values:
        producer.produce(topic, value, key=key, timestamp=1_700_000_000_000)
    assert producer.flush(30) == 0


def test_kafka_goes_on_where_the_watch_stopped(brokers):
    from coad.live.sources.kafka import KafkaSource, KafkaSourceSettings

    settings = KafkaSourceSettings(["rf"], brokers, from_start=True)
    messages = [("K01", json.dumps({"time": 1.7e9 + k, "amplitude": k})) for k in range(20)]
    produce(brokers, "rf", [*messages, ("K02", "{half"), (None, '{"x": 3}')])
    source = KafkaSource(settings, WANTED)
    found = collect(source.chunks(), 21)
    assert source.counters() == {"received": 22, "malformed": 1}
    assert all(source.connected().values())
    source.close()
    (witness,) = [chunk for chunk in found if chunk.stream == "witness"]
    assert witness.time.tolist() == [1_700_000_000 * 10**9], "the broker's time, where the message has none"

    produce(brokers, "rf", [("K01", '{"time": 1800000000, "phase": 4}')])
    again = KafkaSource(settings, WANTED)
    (chunk,) = collect(again.chunks(json.loads(json.dumps(found[-1].position))), 1)
    again.close()
    assert (chunk.stream, chunk.columns["phase"].tolist()) == ("K01", [4])


def test_records_go_to_kafka_with_their_keys(brokers):
    import confluent_kafka as kafka

    from coad.live.outputs.kafka import KafkaOutput, KafkaOutputSettings

    output = KafkaOutput(KafkaOutputSettings("alarms", brokers, kinds=["event", "alarm"], timeout_s=30))
    output.write(RECORDS)
    output.close()
    reader = kafka.Consumer(
        {"bootstrap.servers": brokers, "group.id": "test", "auto.offset.reset": "earliest"}
    )
    partitions = reader.list_topics("alarms", timeout=30).topics["alarms"].partitions
    reader.assign([kafka.TopicPartition("alarms", number, 0) for number in partitions])
    found, end = {}, time.monotonic() + 30
    while len(found) < 2 and time.monotonic() < end:
        message = reader.poll(0.2)
        if message is not None and not message.error():
            found[message.key().decode()] = json.loads(message.value())
    reader.close()
    assert {key: one["kind"] for key, one in found.items()} == {"e1": "event", "a1": "alarm"}


def test_a_kafka_output_without_brokers_says_so():
    pytest.importorskip("confluent_kafka", reason="Kafka needs it: pip install 'coad[kafka]'")
    from coad.live.outputs.kafka import KafkaOutput, KafkaOutputSettings

    output = KafkaOutput(KafkaOutputSettings("alarms", "127.0.0.1:1", timeout_s=0.5))
    with pytest.raises(OutputError, match=r"127\.0\.0\.1:1 did not take 2 records"):
        output.write(RECORDS)


def test_wrong_settings_of_a_broker_are_one_line(tmp_path):
    pytest.importorskip("paho.mqtt", reason="MQTT needs paho-mqtt: pip install 'coad[mqtt]'")
    pytest.importorskip("confluent_kafka", reason="Kafka needs it: pip install 'coad[kafka]'")
    from coad.live.outputs.kafka import KafkaOutput, KafkaOutputSettings
    from coad.live.sources.kafka import KafkaSource, KafkaSourceSettings
    from coad.live.sources.mqtt import MqttSource, MqttSourceSettings

    with pytest.raises(InputError, match="password_file"):
        MqttSource(MqttSourceSettings(username="coad", password_file=str(tmp_path / "none")), WANTED)
    with pytest.raises(InputError, match=r"no\.such\.key"):
        KafkaSource(KafkaSourceSettings(["rf"], client={"no.such.key": "1"}), WANTED)
    with pytest.raises(InputError, match=r"no\.such\.key"):
        KafkaOutput(KafkaOutputSettings("rf", client={"no.such.key": "1"}))
