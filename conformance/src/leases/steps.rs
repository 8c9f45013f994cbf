//! The steps of a case, on one domain.

use anyhow::{Context, Result, bail};
use gapless_projection::{
    Answer, Change, Command, Definition, Done, ExplodeError, Exploded, Grant, Held, Next, OnExhausted,
    OnExpiry, OpenSlot, Payload, Refusal, RowRead, RowWrite, RuleKind, Rules, Settings, Stage, row_from_json,
};
use serde_json::{Map, Value, json};

use crate::leases::UnknownOperation;
use crate::leases::domain::{LoggedDomain, OwnedEvent, WORKSPACE};

/// One domain and the clock of its leader.
pub(crate) struct Subject {
    domain: LoggedDomain,
    time: u64,
}

/// What a step is given.
struct Arguments<'a>(&'a Map<String, Value>);

impl Subject {
    pub(crate) fn new(config: &Map<String, Value>, rules: Option<&Value>) -> Result<Self> {
        let rules = rules.filter(|rules| !rules.is_null()).map_or(Ok(Rules::default()), Rules::from_json)?;
        let definition = Definition { settings: settings(config)?, rules };
        Ok(Self { domain: LoggedDomain::new(definition)?, time: 0 })
    }

    /// Does a step; what it gives.
    pub(crate) fn step(&mut self, step: &Map<String, Value>) -> Result<Value> {
        let arguments = Arguments(step);
        if let Some(time) = step.get("t") {
            self.time = time.as_u64().with_context(|| format!("{time} is no time"))?;
        }
        match arguments.text("op")? {
            "open" => self.open(&arguments),
            "lease" => {
                let (worker, ttl_ms) = (arguments.text_or("worker", ""), arguments.integer("ttl")?);
                let max = arguments.number_or("max", 1)?.try_into().unwrap_or(u32::MAX);
                self.command(&Command::Lease { worker, ttl_ms, max })
            }
            "allocate" => {
                let (worker, ttl_ms) = (arguments.text_or("worker", ""), arguments.integer("ttl")?);
                let answer = self.command(&Command::Allocate { worker, ttl_ms, workspace: WORKSPACE })?;
                Ok(answer.pointer("/grants/0").cloned().unwrap_or(answer))
            }
            "renew" => {
                let ttl_ms = arguments.integer("ttl")?;
                self.command(&Command::Renew { held: arguments.held()?, ttl_ms })
            }
            "commit" => self.commit(&arguments),
            "release" => self.command(&Command::Release { held: arguments.held()? }),
            "fail" => {
                let error = arguments.text_or("error", "");
                self.command(&Command::Fail { held: arguments.held()?, error })
            }
            "skip" => self.command(&Command::Skip { slot: arguments.number("slot")? }),
            "tick" => self.command(&Command::Tick),
            "leader_change" => self.command(&Command::LeaderChange),
            "restart" => {
                self.domain.restart()?;
                Ok(json!({}))
            }
            "assert_gt" => arguments.assert_greater(),
            query => {
                self.domain.command(self.time, &Command::Tick)?;
                self.query(query, &arguments)
            }
        }
    }

    fn command(&mut self, command: &Command<'_>) -> Result<Value> {
        self.domain.command(self.time, command).map(|answer| answer_json(&answer))
    }

    fn open(&mut self, arguments: &Arguments<'_>) -> Result<Value> {
        self.domain.command(self.time, &Command::Tick)?;
        let from = self.domain.domain().tail() + 1;
        let plain = Value::Object(Map::new());
        let events: Vec<&Value> = match arguments.0.get("events").and_then(Value::as_array) {
            Some(events) => events.iter().collect(),
            None => (0..arguments.number("count")?).map(|_| &plain).collect(),
        };
        for event in events {
            let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
            let key = event.get("key").filter(|key| !key.is_null());
            let event = OwnedEvent {
                event_type: text("type").unwrap_or_default(),
                key: key.map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned)),
                payload: event.to_string().into_bytes(),
            };
            self.domain.open(self.time, event)?;
        }
        let domain = self.domain.domain();
        Ok(json!({"from": from, "to": domain.tail(), "watermark": domain.watermark()}))
    }

    fn commit(&mut self, arguments: &Arguments<'_>) -> Result<Value> {
        let Some(payload) = payload(arguments)? else {
            self.domain.command(self.time, &Command::Tick)?;
            return Ok(refused(Refusal::InvalidPayload));
        };
        let bytes = payload.to_bytes();
        self.command(&Command::commit(arguments.held()?, &bytes))
    }

    fn query(&mut self, query: &str, arguments: &Arguments<'_>) -> Result<Value> {
        let view = self.domain.domain().view();
        let watermark = view.watermark();
        Ok(match query {
            "barrier" => {
                let blocking = self.domain.domain().blocking(arguments.number("slot")?, usize::MAX)?;
                json!({"ready": blocking.is_empty(), "blocking": blocking, "watermark": watermark})
            }
            "status" => self.status()?,
            "read" => {
                let effects = view.effects(arguments.number_or("after", 0)?);
                let entries = effects.map(|effect| entry(&effect?)).collect::<Result<Vec<Value>>>()?;
                json!({"entries": entries, "watermark": watermark})
            }
            "dlq" => {
                let fills = view.fills(0).collect::<Result<Vec<_>, _>>()?;
                let resolved = fills.iter().filter(|fill| fill.is_dead_letter).map(|fill| fill.slot);
                let open = self.domain.domain().open_slots(0, usize::MAX)?;
                let waiting =
                    open.iter().filter(|slot| is_filled(slot) && slot.is_claimed).map(|slot| slot.slot);
                json!({"slots": resolved.chain(waiting).collect::<Vec<u64>>()})
            }
            "metrics" => self.metrics(),
            "explode" => match view.explode(arguments.number("slot")?) {
                Ok(exploded) => {
                    let Exploded { kind, table, ids } = exploded;
                    json!({"read_watermark": watermark, "exploded": {"kind": kind.name(), "entity": table, "ids": ids}})
                }
                Err(ExplodeError::Refused(refusal)) => refused(refusal),
                Err(ExplodeError::Evaluation(error)) => json!({"error": error.code()}),
                Err(ExplodeError::Fault(fault)) => return Err(fault.into()),
            },
            "get" => {
                let (version, row) = view.row(arguments.text("entity")?, WORKSPACE, arguments.text("id")?)?;
                let state = Change::Effects(vec![RowWrite { table: "t".into(), id: "i".into(), row }]);
                json!({"row": row_json(&state)?, "version": version})
            }
            "state" => {
                let state: Value = serde_json::from_str(&view.state_json(WORKSPACE)?)?;
                json!({"watermark": watermark, "state": state, "hash": view.state_hash(WORKSPACE)?})
            }
            "oplog" => {
                let ops: Value = serde_json::from_str(&view.effects_json()?)?;
                json!({"watermark": watermark, "ops": ops, "hash": view.effects_hash()?})
            }
            "physical_replay" => json!({"hash": view.physical_replay()?.state_hash(WORKSPACE)?}),
            "serial_rebuild" => {
                let rules = self.domain.domain().rules().clone();
                let rebuilt = view.serial_rebuild(&rules, |source| self.domain.event(source))?;
                json!({"hash": rebuilt.state_hash(WORKSPACE)?})
            }
            other => return Err(UnknownOperation(other.to_owned()).into()),
        })
    }

    fn status(&mut self) -> Result<Value> {
        let domain = self.domain.domain();
        let status = domain.status();
        let open = domain.open_slots(0, usize::MAX)?;
        let in_stage = |wanted: Stage| -> Vec<u64> {
            open.iter().filter(|slot| slot.stage == wanted).map(|slot| slot.slot).collect()
        };
        let mut filled = domain.view().fills(0).map(|fill| Ok(fill?.slot)).collect::<Result<Vec<u64>>>()?;
        filled.extend(open.iter().filter(|slot| is_filled(slot)).map(|slot| slot.slot));
        Ok(
            json!({"watermark": status.watermark, "tail": status.tail, "halted": status.is_halted, "clock": status.clock,
            "ready": in_stage(Stage::Ready), "leased": in_stage(Stage::Leased), "staged": in_stage(Stage::Staged),
            "filled": filled}),
        )
    }

    fn metrics(&mut self) -> Value {
        let domain = self.domain.domain();
        let (counters, status) = (*domain.counters(), domain.status());
        let mut metrics: Map<String, Value> =
            counters.each().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        for (name, value) in [
            ("efficiency", json!(counters.efficiency())),
            ("avg_wait_ms", json!(counters.mean_wait_ms())),
            ("utilization", json!(counters.utilization())),
            ("watermark", json!(status.watermark)),
            ("tail", json!(status.tail)),
            ("lag", json!(status.lag())),
            ("lag_ms", json!(status.lag_ms())),
        ] {
            metrics.insert(name.to_owned(), value);
        }
        Value::Object(metrics)
    }
}

fn is_filled(slot: &OpenSlot) -> bool {
    matches!(slot.stage, Stage::Filled(_))
}

fn refused(refusal: Refusal) -> Value {
    json!({"error": refusal.code()})
}

fn answer_json(answer: &Answer) -> Value {
    let watermark = answer.watermark;
    match &answer.done {
        Done::Refused(refusal) => refused(*refusal),
        Done::Granted(grants) => {
            let grants: Vec<Value> = grants.iter().map(|grant| grant_json(grant, watermark)).collect();
            json!({"grants": grants, "watermark": watermark})
        }
        Done::Renewed { expires_at, renewals } => {
            json!({"expires_at": expires_at, "renewals": renewals, "watermark": watermark})
        }
        Done::Committed { status, is_duplicate } => {
            json!({"status": status.name(), "duplicate": is_duplicate, "watermark": watermark})
        }
        Done::PartReceived { parts } => json!({"parts": parts, "watermark": watermark}),
        Done::Released | Done::Skipped | Done::LeaderChanged => json!({"watermark": watermark}),
        Done::Failed { attempts, next } => {
            let (next, retry_at) = match next {
                Next::Retry(at) => ("retry", json!(at)),
                Next::Filled => ("filled", Value::Null),
                Next::Halted => ("halted", Value::Null),
            };
            json!({"attempts": attempts, "next": next, "retry_at": retry_at, "watermark": watermark})
        }
        Done::Ticked { expired } => json!({"expired": expired, "watermark": watermark}),
    }
}

fn grant_json(grant: &Grant, watermark: u64) -> Value {
    json!({"slot": grant.slot, "token": grant.token, "expires_at": grant.expires_at, "attempt": grant.attempt,
        "watermark": watermark})
}

fn entry(effect: &gapless_projection::Effect) -> Result<Value> {
    let mut entry = json!({"slot": effect.slot, "outcome": "committed"});
    match &effect.change {
        Change::Fill { why, .. } => {
            entry["outcome"] = json!("filled");
            entry["why"] = json!(why.name());
        }
        Change::Result(json) => entry["result"] = serde_json::from_str(json)?,
        Change::Rule { .. } | Change::Effects(_) => {}
    }
    Ok(entry)
}

/// A row as JSON, by way of the effect that would write it.
fn row_json(change: &Change) -> Result<Value> {
    let effect = gapless_projection::Effect {
        slot: 1,
        source: None,
        time: 0,
        workspace: WORKSPACE,
        token: 0,
        digest: gapless_projection::CommitDigest::default(),
        change: change.clone(),
    };
    let json: Value = serde_json::from_str(&effect.to_json(1))?;
    Ok(json.pointer("/effects/0/2").cloned().unwrap_or(Value::Null))
}

/// What a step commits; none if it is nothing that can be committed.
fn payload(arguments: &Arguments<'_>) -> Result<Option<Payload>> {
    if let Some(exploded) = arguments.0.get("exploded") {
        return exploded_payload(exploded, arguments.number_or("read_watermark", 0)?).map(Some);
    }
    if arguments.0.contains_key("effects") || arguments.0.contains_key("reads") {
        return effects_payload(arguments);
    }
    Ok(Some(Payload::result(arguments.0.get("result").unwrap_or(&Value::Null))))
}

fn exploded_payload(exploded: &Value, read_watermark: u64) -> Result<Payload> {
    let exploded = Arguments(exploded.as_object().context("an explosion is an object")?);
    let kind = RuleKind::of_name(exploded.text("kind")?).context("no kind of a rule")?;
    let mut ids = Vec::new();
    for id in exploded.0.get("ids").and_then(Value::as_array).into_iter().flatten() {
        ids.push(id.as_str().context("ids are texts")?.into());
    }
    ids.sort();
    ids.dedup();
    let table = exploded.text("entity")?.into();
    Ok(Payload::Exploded { read_watermark, exploded: Exploded { kind, table, ids } })
}

fn effects_payload(arguments: &Arguments<'_>) -> Result<Option<Payload>> {
    let list = |name: &str| arguments.0.get(name).and_then(Value::as_array).into_iter().flatten();
    let part = |item: &Value, name: &str| -> Result<Box<str>> {
        Ok(item.get(name).and_then(Value::as_str).with_context(|| format!("{item} has no {name}"))?.into())
    };
    let mut effects = Vec::new();
    for item in list("effects") {
        let row = match item.get("row").filter(|row| !row.is_null()) {
            None => None,
            Some(row) => match row_from_json(row) {
                Some(row) => Some(row),
                None => return Ok(None),
            },
        };
        effects.push(RowWrite { table: part(item, "entity")?, id: part(item, "id")?, row });
    }
    let mut reads = Vec::new();
    for item in list("reads") {
        let version = item.get("version").and_then(Value::as_u64).context("versions are numbers")?;
        reads.push(RowRead { table: part(item, "entity")?, id: part(item, "id")?, version });
    }
    Ok(Some(Payload::Effects { effects, reads }))
}

fn settings(config: &Map<String, Value>) -> Result<Settings> {
    let config = Arguments(config);
    let default = Settings::default();
    let small = |name: &str, default: u32| -> Result<u32> {
        Ok(u32::try_from(config.number_or(name, default.into())?)?)
    };
    let flag = |name: &str| config.0.get(name).and_then(Value::as_bool).unwrap_or(false);
    Ok(Settings {
        window: config.number_or("window", default.window)?,
        max_ttl_ms: config.number_or("max_ttl", default.max_ttl_ms)?,
        max_renewals: small("max_renewals", default.max_renewals)?,
        max_attempts: small("max_attempts", default.max_attempts)?,
        on_exhausted: match config.text_or("on_exhausted", "fill") {
            "halt" => OnExhausted::Halt,
            _ => OnExhausted::Fill,
        },
        on_expiry: match config.text_or("expiry", "reclaim") {
            "reclaim" => OnExpiry::Reclaim,
            _ => OnExpiry::Fill,
        },
        backoff_ms: config.number_or("backoff_ms", default.backoff_ms)?,
        backoff_cap_ms: config.number_or("backoff_cap_ms", default.backoff_cap_ms)?,
        key_serial: flag("key_serial"),
        park_key: flag("park_key"),
        chunk: usize::try_from(config.number_or("chunk", default.chunk as u64)?)?,
    })
}

impl<'a> Arguments<'a> {
    fn held(&self) -> Result<Held> {
        Ok(Held { slot: self.number("slot")?, token: self.number("token")? })
    }

    fn number(&self, name: &str) -> Result<u64> {
        let value = self.0.get(name).with_context(|| format!("no {name}"))?;
        value.as_u64().with_context(|| format!("{name} is {value}, no number"))
    }

    fn number_or(&self, name: &str, default: u64) -> Result<u64> {
        if self.0.contains_key(name) { self.number(name) } else { Ok(default) }
    }

    fn integer(&self, name: &str) -> Result<i64> {
        let value = self.0.get(name).with_context(|| format!("no {name}"))?;
        value.as_i64().with_context(|| format!("{name} is {value}, no integer"))
    }

    fn text(&self, name: &str) -> Result<&'a str> {
        self.0.get(name).and_then(Value::as_str).with_context(|| format!("no {name}"))
    }

    fn text_or(&self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).and_then(Value::as_str).unwrap_or(default)
    }

    /// True, or what is wrong.
    fn assert_greater(&self) -> Result<Value> {
        let pair = self.0.get("of").and_then(Value::as_array).context("a pair to compare")?;
        let [one, other] = pair.as_slice() else { bail!("a pair to compare") };
        let (one, other) = (one.as_i64().context("a number")?, other.as_i64().context("a number")?);
        Ok(if one > other { json!(true) } else { json!(format!("{one} is not above {other}")) })
    }
}
