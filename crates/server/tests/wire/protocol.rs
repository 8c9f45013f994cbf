//! The protocol as a whole: no method of it is without a test, and none is missing at the server.

use futures_util::stream;
use gapless_api::FILE_DESCRIPTORS;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use crate::support::Node;

/// The tests that make calls.
const TESTS: [&str; 9] = [
    include_str!("admin.rs"),
    include_str!("calls.rs"),
    include_str!("client.rs"),
    include_str!("limits.rs"),
    include_str!("nodes.rs"),
    include_str!("projections.rs"),
    include_str!("races.rs"),
    include_str!("streams.rs"),
    include_str!("work.rs"),
];

/// What the protocol has and the server has not yet.
const LATER: [&str; 6] = ["Pause", "Resume", "ReplayDeadLetters", "Rebuild", "Switch", "Audit"];

fn methods() -> Vec<MethodDescriptor> {
    let pool = DescriptorPool::decode(FILE_DESCRIPTORS).unwrap();
    let services = pool.services().filter(|service| service.package_name() == "gapless.v1");
    services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

/// `GetEntity` as a function is called: `get_entity`.
fn function(name: &str) -> String {
    let mut function = String::new();
    for (at, character) in name.char_indices() {
        if character.is_ascii_uppercase() && at > 0 {
            function.push('_');
        }
        function.push(character.to_ascii_lowercase());
    }
    function
}

#[test]
fn every_method_is_called_by_a_test() {
    let methods = methods();
    assert!(methods.len() >= 31, "{} methods", methods.len());
    for method in methods {
        let call = format!(".{}(", function(method.name()));
        assert!(TESTS.iter().any(|test| test.contains(&call)), "no test calls {}", method.full_name());
    }
}

#[tokio::test]
async fn every_method_is_there() {
    let node = Node::start().await;
    for method in methods() {
        let mut client = tonic::client::Grpc::new(node.channel().await);
        client.ready().await.unwrap();
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let path = PathAndQuery::try_from(path).unwrap();
        // A message without a field, as every protocol has it; what the answer says is other tests' business.
        let request = tonic::Request::new(stream::iter([()]));
        let answered = client.streaming(request, path, ProstCodec::<(), ()>::default()).await;
        let code = match answered {
            Ok(answers) => match answers.into_inner().message().await {
                Ok(_) => Code::Ok,
                Err(status) => status.code(),
            },
            Err(status) => status.code(),
        };
        let is_there = code != Code::Unimplemented;
        assert_eq!(is_there, !LATER.contains(&method.name()), "{}: {code}", method.full_name());
    }
    node.stop().await;
}
