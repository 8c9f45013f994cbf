//! The table of rules: what each call needs, and where. A call without a line here cannot be made, and a test looks for such.
//!
//! Must not know: who asks.

use std::borrow::Cow;

use gapless_api::admin::MAX_DEFINITION_BYTES;
use gapless_api::{Problem, ProblemKind, v1};
use serde_json::Value;

use super::Action;

/// What a call needs of whoever makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: whoever looks after processes is nobody, and learns whether this one serves.
    Nothing,
    /// To be somebody.
    Anything,
    /// A right, in what the request names.
    Action(Action),
}

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The call as the protocol names it, or the path of a page.
    pub(crate) call: &'static str,
    pub(crate) need: Need,
    /// Whether it changes what others rely on, and is audited.
    pub(crate) audited: bool,
}

/// Where a right is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    /// In this namespace.
    Namespace(Cow<'a, str>),
    /// In each of these.
    Each(Vec<&'a str>),
    /// In all there are and will be.
    Everything,
    /// In any; the answer has what the caller may see and nothing else.
    Something,
}

/// A request that is a call of its own: its type says which rule it is under.
pub(crate) trait Asked {
    /// The rule.
    const RULE: &'static Rule;

    /// Where the right is needed.
    fn scope(&self) -> Scope<'_>;

    /// What of that is meant, by name, for the audit: a partition, a projection, a node.
    fn objects(&self) -> Vec<(&'static str, Value)>;
}

/// For what changes nothing that others rely on, and for what does.
const fn rule(call: &'static str, action: Action) -> Rule {
    Rule { call, need: Need::Action(action), audited: matches!(action, Action::Admin) }
}

macro_rules! rules {
    ($($call:literal $request:ident $action:ident |$asked:ident| $scope:expr $(, [$($object:ident),+])?;)*) => {
        $(
            impl Asked for v1::$request {
                const RULE: &'static Rule = &rule($call, Action::$action);

                fn scope(&self) -> Scope<'_> {
                    let $asked = self;
                    $scope
                }

                fn objects(&self) -> Vec<(&'static str, Value)> {
                    vec![$($((stringify!($object), Value::from(self.$object.clone()))),+)?]
                }
            }
        )*

        /// Every call that is under a rule. Streams of requests have the rule of the calls that they are streams of.
        pub(crate) const RULES: &[&Rule] = &[$(<v1::$request as Asked>::RULE,)* &WRITE_STREAM, &WORK];
    };
}

/// Each write of a stream is under the rule of a write; beginning one needs the right somewhere.
pub(crate) const WRITE_STREAM: Rule = rule("WriteStream", Action::Write);
/// What a worker says first names where it works.
pub(crate) const WORK: Rule = rule("Work", Action::Work);

rules! {
    "Write" WriteRequest Write |asked| named(&asked.namespace);
    "GetEntity" GetEntityRequest Read |asked| named(&asked.namespace);
    "ListEntities" ListEntitiesRequest Read |asked| named(&asked.namespace);
    "GetRecord" GetRecordRequest Read |asked| named(&asked.namespace);
    "ListRecords" ListRecordsRequest Read |asked| named(&asked.namespace);
    "ReadWorkspace" ReadWorkspaceRequest Read |asked| named(&asked.namespace);
    "ReadPartition" ReadPartitionRequest Read |asked| named(&asked.namespace);
    "ReadAll" ReadAllRequest Read |asked| named(&asked.namespace);
    "Subscribe" SubscribeRequest Read |asked| named(&asked.namespace);
    "GetClientState" GetClientStateRequest Read |asked| named(&asked.namespace);
    "GetWorkspace" GetWorkspaceRequest Read |asked| named(&asked.namespace);
    "ListSequences" ListSequencesRequest Read |asked| named(&asked.namespace);
    "GetBlock" GetBlockRequest Read |asked| named(&asked.namespace);
    "GetInclusionProof" GetInclusionProofRequest Read |asked| named(&asked.namespace);
    "GetConsistencyProof" GetConsistencyProofRequest Read |asked| named(&asked.namespace);
    "GetRoot" GetRootRequest Read |asked| named(&asked.namespace);

    "Lease" LeaseRequest Work |asked| named(&asked.namespace);
    "Allocate" AllocateRequest Work |asked| named(&asked.namespace);
    "Commit" CommitRequest Work |asked| named(&asked.namespace);
    "Renew" RenewRequest Work |asked| named(&asked.namespace);
    "Release" ReleaseRequest Work |asked| named(&asked.namespace);
    "Fail" FailRequest Work |asked| named(&asked.namespace);
    "Query" QueryRequest Read |asked| named(&asked.namespace);
    "SubscribeEffects" SubscribeEffectsRequest Read |asked| named(&asked.namespace);
    "List" ListRequest Read |asked| named(&asked.namespace);
    "Describe" DescribeRequest Read |asked| named(&asked.namespace);
    "ListDeadLetters" ListDeadLettersRequest Read |asked| named(&asked.namespace);
    "Skip" SkipRequest Admin |asked| named(&asked.namespace), [projection, partition, slot];
    "Pause" PauseRequest Admin |asked| named(&asked.namespace), [projection];
    "Resume" ResumeRequest Admin |asked| named(&asked.namespace), [projection];
    "ReplayDeadLetters" ReplayDeadLettersRequest Admin |asked| named(&asked.namespace), [projection];
    "Rebuild" RebuildRequest Admin |asked| named(&asked.namespace), [projection];
    "Switch" SwitchRequest Admin |asked| named(&asked.namespace), [projection];
    "Audit" AuditRequest Admin |asked| named(&asked.namespace), [projection];

    "ApplyNamespace" ApplyNamespaceRequest Admin |asked| defined(&asked.definition);
    "GetNamespace" GetNamespaceRequest Read |asked| named(&asked.namespace);
    "ListNamespaces" ListNamespacesRequest Read |_asked| Scope::Something;
    "DropNamespace" DropNamespaceRequest Admin |asked| named(&asked.namespace);
    "ListPartitions" ListPartitionsRequest Read |asked| match asked.namespace.as_str() {
        "" => Scope::Something,
        name => named(name),
    };
    "WaitBarrier" WaitBarrierRequest Read |asked| match asked.targets.len() {
        0 => Scope::Something,
        _ => Scope::Each(asked.targets.iter().map(|target| target.namespace.as_str()).collect()),
    };
    "FreezePartition" FreezePartitionRequest Admin |asked| named(&asked.namespace), [partition];
    "ThawPartition" ThawPartitionRequest Admin |asked| named(&asked.namespace), [partition];
    "RepairPartition" RepairPartitionRequest Admin |_asked| Scope::Everything, [namespace, partition, source, node];
    "Snapshot" SnapshotRequest Admin |_asked| Scope::Everything;
    "Backup" BackupRequest Admin |_asked| Scope::Everything, [target];
    "ClusterStatus" ClusterStatusRequest Read |_asked| Scope::Something;
    "AddNode" AddNodeRequest Admin |_asked| Scope::Everything, [node_id, address];
    "RemoveNode" RemoveNodeRequest Admin |_asked| Scope::Everything, [node_id];
    "TransferLeader" TransferLeaderRequest Admin |_asked| Scope::Everything, [node_id];
}

/// In the namespace of this name.
fn named(name: &str) -> Scope<'_> {
    Scope::Namespace(Cow::Borrowed(name))
}

/// In the namespace that a definition is of. What is no definition is refused by whoever reads it, who tells everybody who may
/// define something why.
fn defined(definition: &str) -> Scope<'static> {
    let name = || {
        if definition.len() > MAX_DEFINITION_BYTES {
            return None;
        }
        let table: toml::Table = definition.parse().ok()?;
        Some(table.get("name")?.as_str()?.to_owned())
    };
    name().map_or(Scope::Something, |name| Scope::Namespace(Cow::Owned(name)))
}

/// Everything that is no call of ours: standard services by what their paths begin with, and pages. The longest line counts.
const PAGES: &[Rule] = &[
    Rule { call: "/grpc.health.v1.Health/", need: Need::Nothing, audited: false },
    Rule { call: "/healthz", need: Need::Nothing, audited: false },
    Rule { call: "/readyz", need: Need::Nothing, audited: false },
    Rule { call: "/console/", need: Need::Nothing, audited: false },
    Rule { call: "/grpc.reflection.", need: Need::Anything, audited: false },
    Rule { call: "/openapi.json", need: Need::Anything, audited: false },
    Rule { call: "/metrics", need: Need::Action(Action::Read), audited: false },
];

/// The rule of a path that is no call.
pub(crate) fn page(path: &str) -> Option<&'static Rule> {
    const CONSOLE: &Rule = &Rule { call: "/", need: Need::Nothing, audited: false };
    if path == "/" {
        return Some(CONSOLE);
    }
    PAGES.iter().find(|rule| match rule.call.ends_with(['/', '.']) {
        true => path.starts_with(rule.call),
        false => path == rule.call,
    })
}

/// The rule of a call.
pub(crate) fn call(name: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.call == name)
}

/// What our own services are named after.
const PACKAGE: &str = "/gapless.v1.";

/// The rule of a path of gRPC that is ours; none for any other path. A method without a rule is no method.
///
/// # Errors
/// If there is no such method.
pub(crate) fn method(path: &str) -> Result<Option<&'static Rule>, Problem> {
    let Some(rest) = path.strip_prefix(PACKAGE) else { return Ok(None) };
    let rule = rest.split_once('/').and_then(|(_, method)| call(method));
    let unknown = || Problem::new(ProblemKind::Unimplemented, "NO_SUCH_METHOD", "there is no such method");
    rule.map(Some).ok_or_else(unknown)
}

/// Whether a request can be looked at before anybody knows who asks.
pub(crate) fn is_open(path: &str) -> bool {
    !path.starts_with(PACKAGE) && page(path).is_some_and(|rule| rule.need == Need::Nothing)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost_reflect::DescriptorPool;

    use super::*;

    /// The paths of every method in a set of descriptors.
    fn methods(descriptors: &[u8]) -> Vec<(String, String)> {
        let pool = DescriptorPool::decode(descriptors).unwrap();
        let of_service = |service: prost_reflect::ServiceDescriptor| {
            let path = |method: prost_reflect::MethodDescriptor| {
                (format!("/{}/", service.full_name()), method.name().to_owned())
            };
            service.methods().map(path).collect::<Vec<_>>()
        };
        pool.services().flat_map(of_service).collect()
    }

    #[test]
    fn every_method_that_the_server_offers_has_a_rule() {
        let offered = [
            gapless_api::FILE_DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let mut ours = BTreeSet::new();
        for (service, method) in offered.into_iter().flat_map(methods) {
            if service.starts_with(PACKAGE) {
                assert!(call(&method).is_some(), "{service}{method} has no rule");
                ours.insert(method);
            } else {
                assert!(page(&format!("{service}{method}")).is_some(), "{service}{method} has no rule");
            }
        }
        let ruled: BTreeSet<String> = RULES.iter().map(|rule| rule.call.to_owned()).collect();
        assert_eq!(ruled, ours, "every rule is that of a method, and each stands there once");
        assert_eq!(ruled.len(), RULES.len());
    }

    #[test]
    fn every_route_and_page_has_a_rule() {
        for route in crate::http::routes::routes() {
            assert!(call(route.call).is_some(), "{} has no rule", route.call);
        }
        for path in crate::http::open_paths() {
            assert!(page(&path).is_some(), "{path} has no rule");
        }
    }

    #[test]
    fn what_is_open_to_strangers_is_this_and_no_more() {
        for path in ["/", "/console/main.js", "/healthz", "/readyz", "/grpc.health.v1.Health/Check"] {
            assert!(is_open(path), "{path}");
        }
        for path in [
            "/metrics",
            "/openapi.json",
            "/v1/namespaces",
            "/nowhere",
            "/healthz/",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/gapless.v1.Ledger/Write",
            "//",
            "",
        ] {
            assert!(!is_open(path), "{path}");
        }
    }

    #[test]
    fn the_namespace_of_a_definition_is_the_one_that_is_defined() {
        for (definition, name) in [
            ("name = 'shop'", Some("shop")),
            // However it is written.
            ("name = \"sh\\u006fp\"", Some("shop")),
            ("\"n\\u0061me\" = 'shop'", Some("shop")),
            ("[kinds]\nname = 'x'", None),
            ("name = 7", None),
            ("name = 'a'\nname = 'b'", None),
            ("", None),
        ] {
            let scope = name.map_or(Scope::Something, |name| Scope::Namespace(Cow::Borrowed(name)));
            assert_eq!(defined(definition), scope, "{definition}");
        }
    }
}
