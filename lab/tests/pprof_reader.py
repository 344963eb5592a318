"""Reads pprof's format with Google's protobuf library, from the fields that profile.proto declares."""

import gzip

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_INT, _TEXT, _BOOL, _MESSAGE = 3, 9, 8, 11
_MESSAGES = {
    "ValueType": [("type", 1, _INT), ("unit", 2, _INT)],
    "Label": [("key", 1, _INT), ("str", 2, _INT), ("num", 3, _INT), ("num_unit", 4, _INT)],
    "Sample": [("location_id", 1, "repeated"), ("value", 2, "repeated"), ("label", 3, "Label*")],
    "Mapping": [("id", 1, _INT), ("filename", 5, _INT), ("has_functions", 7, _BOOL), ("has_filenames", 8, _BOOL), ("has_line_numbers", 9, _BOOL)],
    "Line": [("function_id", 1, _INT), ("line", 2, _INT)],
    "Location": [("id", 1, _INT), ("mapping_id", 2, _INT), ("address", 3, _INT), ("line", 4, "Line*")],
    "Function": [("id", 1, _INT), ("name", 2, _INT), ("system_name", 3, _INT), ("filename", 4, _INT), ("start_line", 5, _INT)],
    "Profile": [("sample_type", 1, "ValueType*"), ("sample", 2, "Sample*"), ("mapping", 3, "Mapping*"), ("location", 4, "Location*"),
                ("function", 5, "Function*"), ("string_table", 6, "text*"), ("time_nanos", 9, _INT), ("duration_nanos", 10, _INT),
                ("period_type", 11, "ValueType"), ("period", 12, _INT), ("comment", 13, "repeated"), ("default_sample_type", 14, _INT)],
}


def _schema():
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            made = message.field.add(name=field, number=number, label=1)
            if kind in ("repeated", "text*"):
                made.type, made.label = (_INT if kind == "repeated" else _TEXT), 3
            elif isinstance(kind, str):
                made.type, made.type_name, made.label = _MESSAGE, f".perftools.profiles.{kind.rstrip('*')}", 3 if kind.endswith("*") else 1
            else:
                made.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))


def read(content: bytes):
    """The message; unknown fields would be an error of ours."""
    profile = _schema()()
    profile.ParseFromString(gzip.decompress(content))
    assert profile.SerializeToString(deterministic=True)
    return profile
