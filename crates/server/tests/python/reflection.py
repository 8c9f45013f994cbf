"""Asks a server what it offers, as a program that has never seen the protocol does.

    python reflection.py ADDRESS VERSION

VERSION is v1 or v1alpha: the messages are the same, the service has another name. Prints the services, and the method
gapless.v1.Ledger.Write with what it takes and gives.
"""

import sys

import grpc
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2 as messages


def main(address, version):
    request = messages.ServerReflectionRequest
    with grpc.insecure_channel(address) as channel:
        ask = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=request.SerializeToString,
            response_deserializer=messages.ServerReflectionResponse.FromString,
        )
        questions = [request(list_services="*"), request(file_containing_symbol="gapless.v1.Ledger.Write")]
        services, described = ask(iter(questions), timeout=60)
    for service in services.list_services_response.service:
        print("service", service.name)
    for encoded in described.file_descriptor_response.file_descriptor_proto:
        file = descriptor_pb2.FileDescriptorProto.FromString(encoded)
        for service in file.service:
            for method in service.method:
                if method.name == "Write":
                    print("method", f"{file.package}.{service.name}.Write", method.input_type, method.output_type)


main(*sys.argv[1:])
