//! The page about all settings, made from the table.

use std::fmt::Write as _;

use super::Settings;
use super::table::SETTINGS;

const BEGINNING: &str = "\
# Configuration

<!-- Made by `cargo xtask docs` from the table of settings in crates/server/src/config/table.rs. -->

A node is told what to do by a file, by the environment and by flags; later wins.

```
gapless serve --config gapless.toml
GAPLESS_SERVER__LISTEN=127.0.0.1:7500 gapless serve --data /var/lib/gapless
gapless serve --config gapless.toml --listen 127.0.0.1:7500
gapless serve --print-config > gapless.toml
```

- The file is TOML. A setting `server.listen` is the key `listen` in the section `[server]`.
- In the environment it is `GAPLESS_SERVER__LISTEN`: section and key in capitals, with two underscores between them.
- Flags are `--data` (`node.data`), `--listen` (`server.listen`), `--insecure` (`server.insecure`), `--log` (`telemetry.log`) and
  `--log-format` (`telemetry.log_format`). `GAPLESS_LOG` is short for `GAPLESS_TELEMETRY__LOG`.
- Sizes have a unit: `B`, `KiB`, `MiB` or `GiB`. Durations have one, too: `10ms`, `5s`, `1m 30s`.
- A name that nothing has is an error, and so is a value out of its bounds. All problems are told at once, each with the file, the
  variable or the flag that it comes from, and the node does not start.
- `--print-config` shows what file, environment and flags come to, as a file that says the same, and ends.
- A node that listens beyond loopback does not start without TLS and authentication, unless `--insecure` says that the network is
  trusted. [Security](security.md) has the set-up.
- No setting is a secret: keys and certificates are files, and what is printed names them and nothing of what is in them.
";

/// The page.
pub(crate) fn reference() -> String {
    let mut page = BEGINNING.to_owned();
    let defaults = Settings::default();
    let mut section = "";
    for setting in SETTINGS {
        let (its, key) = setting.parts();
        if its != section {
            let _ =
                write!(page, "\n## [{its}]\n\n| key | default | values | what it is |\n|---|---|---|---|\n");
            section = its;
        }
        let default = (setting.show)(&defaults).to_string();
        let default = if default == "\"\"" { "none".to_owned() } else { format!("`{default}`") };
        let _ = writeln!(page, "| `{key}` | {default} | {} | {} |", (setting.values)(), setting.about);
    }
    page
}
