//! The calls of the service Admin that concern namespaces.

use gapless_engine::Namespace;

use crate::admin::{AdminCalls, MAX_DEFINITION_BYTES};
use crate::check::Check;
use crate::definition::{from_toml, to_toml};
use crate::page;
use crate::problem::Problem;
use crate::unknown;
use crate::v1;

impl AdminCalls {
    /// Defines a namespace, or defines it anew. Ready when every partition of it here has taken it.
    ///
    /// # Errors
    /// Everything that is wrong with the definition or cannot change; or if this node does not lead.
    pub async fn apply_namespace(
        &self,
        request: &v1::ApplyNamespaceRequest,
    ) -> Result<v1::ApplyNamespaceResponse, Problem> {
        let bytes = request.definition.len();
        if bytes > MAX_DEFINITION_BYTES {
            let problem = format!("{bytes} bytes; the most are {MAX_DEFINITION_BYTES}");
            return Err(Problem::violation("definition", problem));
        }
        let definition = from_toml(&request.definition)?;
        let name = definition.name.clone();
        self.engine.define(definition).await?;
        let defined = self.engine.namespace(name.as_str());
        let defined = defined.ok_or_else(|| Problem::no_namespace(name.as_str()))?;
        Ok(v1::ApplyNamespaceResponse { namespace: Some(message(&defined)) })
    }

    /// A namespace.
    ///
    /// # Errors
    /// If there is none.
    pub fn get_namespace(
        &self,
        request: &v1::GetNamespaceRequest,
    ) -> Result<v1::GetNamespaceResponse, Problem> {
        check(&request.namespace)?;
        let found = self.engine.namespace(&request.namespace);
        let found = found.ok_or_else(|| unknown::namespace(&self.engine, &request.namespace))?;
        Ok(v1::GetNamespaceResponse { namespace: Some(message(&found)) })
    }

    /// All namespaces that whoever asks may see, page by page.
    ///
    /// # Errors
    /// If the request breaks rules.
    pub fn list_namespaces(
        &self,
        request: &v1::ListNamespacesRequest,
        may_see: impl Fn(&str) -> bool,
    ) -> Result<v1::ListNamespacesResponse, Problem> {
        let mut check = Check::default();
        let size = check.page_size(request.page_size);
        let question: [&[u8]; 1] = [b"namespaces"];
        let after = page::number(&question, &request.page_token, &mut check);
        check.end()?;
        let mut found = self.engine.namespaces();
        found.retain(|namespace| {
            after.is_none_or(|after| u64::from(namespace.id.get()) > after)
                && may_see(namespace.name().as_str())
        });
        let has_more = found.len() > size;
        found.truncate(size);
        let token = |last: &Namespace| page::token(&question, &u64::from(last.id.get()).to_le_bytes());
        let next_page_token = found.last().filter(|_| has_more).map_or(String::new(), token);
        Ok(v1::ListNamespacesResponse { namespaces: found.iter().map(message).collect(), next_page_token })
    }

    /// Drops a namespace with everything in it.
    ///
    /// # Errors
    /// If there is none, or this node does not lead.
    pub async fn drop_namespace(
        &self,
        request: &v1::DropNamespaceRequest,
    ) -> Result<v1::DropNamespaceResponse, Problem> {
        check(&request.namespace)?;
        if self.engine.namespace(&request.namespace).is_none() {
            return Err(unknown::namespace(&self.engine, &request.namespace));
        }
        self.engine.drop_namespace(&request.namespace).await?;
        Ok(v1::DropNamespaceResponse {})
    }
}

fn check(name: &str) -> Result<(), Problem> {
    let mut check = Check::default();
    check.name("namespace", name);
    check.end()
}

fn message(namespace: &Namespace) -> v1::Namespace {
    let definition = namespace.schema.definition();
    v1::Namespace {
        name: namespace.name().to_string(),
        id: namespace.id.get(),
        partitions: u32::from(definition.partitions.get()),
        definition: to_toml(definition),
        frozen: namespace.frozen.iter().map(|index| u32::from(index.get())).collect(),
    }
}
