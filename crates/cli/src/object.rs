//! `weft object`: a replicated object of a running cluster.

use clap::Args;
use serde_json::json;
use weft_client::Update;
use weft_cluster::{ClusterConfig, ObjectConfig};
use weft_rdt::client::{Invocation, signatures};
use weft_rdt::{Definition, types};

use crate::client::{ClientOptions, failure, verdict};
use crate::failure::{Failure, Verdict};

/// The object, and the call.
#[derive(Clone, Debug, Args)]
pub(crate) struct ObjectArguments {
    #[command(flatten)]
    options: ClientOptions,
    /// The object's type; weft rdt list shows all types with their methods and queries
    #[arg(value_name = "TYPE")]
    kind: String,
    /// The object's name in the configuration
    name: String,
    /// A method or a query of the type
    method: String,
    /// Arguments of the call: integers; an element of a set is an integer from 0
    #[arg(value_name = "N", allow_negative_numbers = true)]
    arguments: Vec<i64>,
    /// The replica to ask [default: any]
    #[arg(long, value_name = "N")]
    node: Option<usize>,
}

/// Finds the object in the configuration, and checks that it has this type.
fn find<'a>(config: &'a ClusterConfig, name: &str, kind: &str) -> Result<&'a ObjectConfig, String> {
    let objects = &config.engines.objects;
    let known = |object: &ObjectConfig| format!("{} ({})", object.name, object.data_type);
    let Some(object) = objects.iter().find(|object| object.name == name) else {
        let all: Vec<_> = objects.iter().map(known).collect();
        let has = if all.is_empty() { "no [[object]] at all".to_owned() } else { all.join(", ") };
        return Err(format!("the cluster has no object `{name}`; it has {has}"));
    };
    if object.data_type != kind {
        let own = &object.data_type;
        return Err(format!("the object `{name}` has the type {own}, not {kind}: give {own}"));
    }
    Ok(object)
}

fn definition(kind: &str) -> Result<Definition, Failure> {
    types::by_name(kind).ok_or_else(|| {
        let known = types::NAMES.join(", ");
        Failure::new(format!("there is no type `{kind}`; choose {known}"))
    })
}

impl ObjectArguments {
    /// Calls the method, and shows the answer. If the object refuses the call, the exit code says so.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let Self { options, kind, name, method, arguments, node } = &self;
        let config = options.load()?;
        let definition = definition(kind)?;
        find(&config, name, kind).map_err(|error| Failure::at(&options.config, error))?;
        let is_query = Invocation::new(&definition, method, arguments)
            .map_err(|error| {
                let known: Vec<_> = signatures(&definition).collect();
                Failure::new(format!("{error}; {kind}: {}", known.join(", ")))
            })?
            .is_query();
        let mut object = options.open(&config)?.object(name)?;
        if let Some(node) = node {
            object = object.at(*node)?;
        }
        let call = format!("{name}.{method}");
        if is_query {
            let value = object
                .query(method, arguments)
                .wait()
                .map_err(|error| failure(&error, "ask again: a query changes nothing"))?;
            let object =
                json!({ "object": name, "type": kind, "call": method, "outcome": "value", "value": value });
            options.deliver(&format!("{call}: {value}"), &object)?;
            return Ok(Verdict::Good);
        }
        let update = object
            .update(method, arguments)
            .wait()
            .map_err(|error| failure(&error, "query the object before it is called again"))?;
        let is_done = update == Update::Done;
        let outcome = if is_done { "done" } else { "refused" };
        let line = if is_done {
            format!("{call}: done")
        } else {
            format!("{call}: refused, as the guards of {kind} say")
        };
        options
            .deliver(&line, &json!({ "object": name, "type": kind, "call": method, "outcome": outcome }))?;
        Ok(verdict(is_done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_the_type_of_its_configuration() {
        let text = "[membership]\naddress = \"10.0.0.1:4794\"\n[[node]]\naddress = \"10.0.0.1\"\n\
                    [[object]]\nname = \"till\"\ntype = \"account\"\n";
        let config = ClusterConfig::parse(text).unwrap();
        assert_eq!(find(&config, "till", "account").unwrap().name, "till");
        assert_eq!(
            find(&config, "till", "movie").unwrap_err(),
            "the object `till` has the type account, not movie: give account"
        );
        assert_eq!(
            find(&config, "safe", "account").unwrap_err(),
            "the cluster has no object `safe`; it has till (account)"
        );
    }
}
