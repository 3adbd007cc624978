# SPDX-License-Identifier: Apache-2.0
"""Reads a trace of Perfetto by its published field numbers, checks the rules of that format, and compares the trace with
the JSON of the same run: track_event.py FILE.pftrace FILE.json"""
import json
import struct
import sys
from collections import Counter, defaultdict

# Message: {number: (name, type)}; a type is a message, or how the value is encoded. Numbers, types and rules are those of
# the public schema, https://github.com/google/perfetto, folder protos/perfetto/trace, compared in November 2026 with
# trace.proto, trace_packet.proto (commit 02603952), trace_packet_defaults.proto, clock_snapshot.proto,
# interned_data/interned_data.proto, and in track_event/: track_event.proto (005055c9), track_descriptor.proto,
# debug_annotation.proto. Perfetto never gives a number to another field, so a later schema has the same ones.
SCHEMA = {
    "Trace": {1: ("packet", "TracePacket")},
    "TracePacket": {6: ("clock_snapshot", "ClockSnapshot"), 8: ("timestamp", "varint"),
                    10: ("trusted_packet_sequence_id", "varint"), 11: ("track_event", "TrackEvent"),
                    12: ("interned_data", "InternedData"), 13: ("sequence_flags", "varint"),
                    59: ("trace_packet_defaults", "TracePacketDefaults"),
                    60: ("track_descriptor", "TrackDescriptor")},
    "ClockSnapshot": {1: ("clocks", "Clock")},
    "Clock": {1: ("clock_id", "varint"), 2: ("timestamp", "varint"), 3: ("is_incremental", "varint")},
    "TracePacketDefaults": {11: ("track_event_defaults", "TrackEventDefaults"), 58: ("timestamp_clock_id", "varint")},
    "TrackEventDefaults": {11: ("track_uuid", "varint")},
    "TrackDescriptor": {1: ("uuid", "varint"), 2: ("name", "string"), 5: ("parent_uuid", "varint"),
                        8: ("counter", "CounterDescriptor")},
    "CounterDescriptor": {},
    "InternedData": {2: ("event_names", "EventName"), 3: ("debug_annotation_names", "EventName")},
    "EventName": {1: ("iid", "varint"), 2: ("name", "string")},
    "TrackEvent": {4: ("debug_annotations", "DebugAnnotation"), 9: ("type", "varint"), 10: ("name_iid", "varint"),
                   11: ("track_uuid", "varint"), 23: ("name", "string"), 30: ("counter_value", "varint"),
                   47: ("flow_ids", "fixed64"), 48: ("terminating_flow_ids", "fixed64")},
    "DebugAnnotation": {1: ("name_iid", "varint"), 3: ("uint_value", "varint")},
}
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDS_STATE = 1, 2
BOOT_CLOCK, FIRST_OWN_CLOCK, LAST_OWN_CLOCK = 6, 64, 127


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def parse(data, kind):
    """{name: [value]}; a field that the schema does not have, or encodes otherwise, is an error."""
    out, at = defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        name, type_of = SCHEMA[kind][tag >> 3]
        wire = {"varint": 0, "fixed64": 1}.get(type_of, 2)
        assert tag & 7 == wire, (kind, name, tag & 7)
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        else:
            size, at = varint(data, at)
            value = data[at:at + size]
            assert len(value) == size, "a message is cut off"
            at += size
            value = value.decode() if type_of == "string" else parse(value, type_of)
        out[name].append(value)
    return out


DATA = {"clock_snapshot", "track_event", "track_descriptor"}
run = json.load(open(sys.argv[2]))["otherData"]
IS_EXACT = run["times"] == "of each task" and run["lost_records"] == 0
raw = open(sys.argv[1], "rb").read()
sequences, tracks, counter_tracks, parents, open_slices, slices = {}, {}, set(), {}, {}, []
starts, ends, flow_at, counters = Counter(), Counter(), {}, 0
for packet in parse(raw, "Trace")["packet"]:
    assert all(len(value) == 1 for name, value in packet.items() if name != "interned_data"), "a field occurs twice"
    assert len(DATA & packet.keys()) <= 1, f"one packet, several kinds of data: {packet.keys()}"
    number, flags = packet["trusted_packet_sequence_id"][0], packet["sequence_flags"][0]
    assert number > 0 and flags in (CLEARED, NEEDS_STATE), "a sequence begins with a packet, the others need its state"
    assert (flags == CLEARED) == (number not in sequences), f"sequence {number} begins twice, or without its state"
    if flags == CLEARED:
        sequences[number] = {"names": {}, "notes": {}}
        assert "clock_snapshot" in packet and "trace_packet_defaults" in packet, "clock and defaults come first"
    state = sequences[number]
    for clock in [c for s in packet["clock_snapshot"] for c in s["clocks"]]:
        is_own = FIRST_OWN_CLOCK <= clock["clock_id"][0] <= LAST_OWN_CLOCK
        assert is_own or clock["clock_id"] == [BOOT_CLOCK], "a clock that belongs to no sequence"
        assert not clock["is_incremental"] or is_own, "only a sequence's own clock is incremental"
        state["clock", clock["clock_id"][0]] = clock["timestamp"][0]
    for default in packet["trace_packet_defaults"]:
        assert default["timestamp_clock_id"] == [64]
        assert state["clock", 64] == state["clock", BOOT_CLOCK], "the clock of the sequence starts with the trace's"
        state["track"] = default["track_event_defaults"][0]["track_uuid"][0]
    for track in packet["track_descriptor"]:
        uuid = track["uuid"][0]
        assert uuid != 0 and uuid not in tracks, f"two tracks are number {uuid}"
        tracks[uuid] = track["name"][0]
        parents[uuid] = track["parent_uuid"][0] if track["parent_uuid"] else None
        counter_tracks.update([uuid] if track["counter"] else [])
    for data in packet["interned_data"]:
        state["names"].update({n["iid"][0]: n["name"][0] for n in data["event_names"]})
        state["notes"].update({n["iid"][0]: n["name"][0] for n in data["debug_annotation_names"]})
    assert ("timestamp" in packet) == ("track_event" in packet), "an event has a time, nothing else has"
    if "timestamp" in packet:
        assert packet["timestamp"][0] < 1 << 63, f"time goes back in sequence {number}"
        state["clock", 64] += packet["timestamp"][0]
    for event in packet["track_event"]:
        at, kind = state["clock", 64], event["type"][0]
        track = event["track_uuid"][0] if event["track_uuid"] else state["track"]
        assert track in tracks, f"an event of track {track}, which was not described before"
        assert (kind == COUNTER) == (track in counter_tracks) == ("counter_value" in event), "a counter has a value"
        assert kind in (BEGIN, END, INSTANT, COUNTER) and (kind == BEGIN or not event["flow_ids"]), kind
        for field in ("flow_ids", "terminating_flow_ids"):
            for flow in event[field]:
                flow_at[field, flow] = at
        if kind == BEGIN:
            assert number not in open_slices, "slices of a lane overlap"
            notes = {state["notes"][n["name_iid"][0]]: n["uint_value"][0] for n in event["debug_annotations"]}
            open_slices[number] = (tracks[state["track"]], state["names"][event["name_iid"][0]], notes["task"], at)
            starts.update(event["flow_ids"])
            ends.update(event["terminating_flow_ids"])
        elif kind == END:
            track, name, task, begin = open_slices.pop(number)
            slices.append((track, name, task, at - begin))
        elif kind == COUNTER:
            counters += 1
assert not open_slices, "a slice has no end"
assert all(parent is None or parent in tracks for parent in parents.values()), "a track has no parent"
assert starts.keys() == ends.keys(), f"{len(starts.keys() ^ ends.keys())} flows have one end"
assert all(flow_at["flow_ids", f] <= flow_at["terminating_flow_ids", f] for f in starts) or not IS_EXACT, "a flow goes back"

events = json.load(open(sys.argv[2]))["traceEvents"]
names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
expected = Counter((names[e["tid"]], e["name"], e["args"]["task"]) for e in events if e["ph"] == "X")
assert Counter(s[:3] for s in slices) == expected, "the slices are others than those of the JSON"
lengths = sum(e["dur"] for e in events if e["ph"] == "X") * 1000
lanes = defaultdict(list)
for e in events:
    if e["ph"] == "X":
        lanes[e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
# Times in a batch of records are estimates and may overlap: the later slice then begins later in the file.
is_exact = all(a[1] <= b[0] + 0.002 for lane in lanes.values() for a, b in zip(sorted(lane), sorted(lane)[1:]))
assert is_exact or not IS_EXACT
assert not is_exact or abs(sum(s[3] for s in slices) - lengths) < 2 * len(slices) + lengths / 1000, "the slices have other lengths"
assert max(starts.values(), default=1) == max(ends.values(), default=1) == 1, "a flow has two ends"
assert counters == 2 * sum(e["ph"] == "C" for e in events), "counters are missing"
flows = len(starts)
size = (len(raw) - 20 * flows - 14 * counters) / max(1, len(slices))
assert len(slices) < 1000 or size <= 40, f"{size} bytes a slice"
print(f"{len(slices)} slices, {flows} flows, {size:.1f} bytes a slice, {len(raw)} bytes")
