//! The layers of the sandbox, and a program for each that would get through if it did not hold.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that stands between a program and the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Everything the program starts is killed with it.
    ProcessGroup,
    /// Limits on CPU, memory, files, processes and output, and a wall clock.
    Limits,
    /// No environment variable is passed on.
    EmptyEnvironment,
    /// A fresh working folder.
    TemporaryFolder,
    /// Files and signals, checked by the kernel.
    Landlock,
    /// System calls, filtered by the kernel.
    Seccomp,
    /// A network, users and mounts of its own.
    Namespaces,
    /// The `bwrap` command.
    Bubblewrap,
}

impl Layer {
    /// The layers that depend on the kernel, as they are tried.
    pub const KERNEL: [Self; 4] = [Self::Bubblewrap, Self::Namespaces, Self::Landlock, Self::Seccomp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProcessGroup => "process group",
            Self::Limits => "limits",
            Self::EmptyEnvironment => "empty environment",
            Self::TemporaryFolder => "temporary folder",
            Self::Landlock => "Landlock",
            Self::Seccomp => "seccomp",
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
        }
    }

    /// A program that passes only where the layer holds.
    pub(super) fn attack(self) -> &'static str {
        match self {
            Self::Landlock => {
                "for path in ['/etc/passwd', '/proc/self/environ']:\n    \
                     try:\n        open(path).read()\n    \
                     except OSError:\n        continue\n    \
                     raise SystemError('could read ' + path)\n\
                 open('allowed', 'w').write('x')\n"
            }
            Self::Seccomp => {
                "import os, socket\n\
                 for attempt in [socket.socket, os.fork]:\n    \
                     try:\n        attempt()\n    \
                     except OSError:\n        continue\n    \
                     raise SystemError('got through')\n"
            }
            Self::Namespaces => {
                "import os, socket\n\
                 assert [name for _, name in socket.if_nameindex()] in (['lo'], [])\n\
                 open('allowed', 'w').write('x')\n"
            }
            Self::Bubblewrap => {
                "import os, socket\n\
                 assert [name for _, name in socket.if_nameindex()] in (['lo'], [])\n\
                 assert not os.path.exists('/etc/passwd') and not os.path.exists('/proc/1')\n\
                 open('allowed', 'w').write('x')\n"
            }
            _ => "",
        }
    }
}

/// The layers that are active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Layers(BTreeSet<Layer>);

impl Layers {
    /// Layers that need nothing from the kernel.
    pub(super) fn always() -> Self {
        Self([Layer::ProcessGroup, Layer::Limits, Layer::EmptyEnvironment, Layer::TemporaryFolder].into())
    }

    pub(super) fn with(mut self, layer: Layer) -> Self {
        self.0.insert(layer);
        self
    }

    /// Bubblewrap makes the namespaces and shows only some of the files, so it stands for both.
    pub(super) fn without_doubles(mut self) -> Self {
        if self.contains(Layer::Bubblewrap) {
            self.0.remove(&Layer::Namespaces);
            self.0.remove(&Layer::Landlock);
        }
        self
    }

    /// True if this layer is active.
    pub fn contains(&self, layer: Layer) -> bool {
        self.0.contains(&layer)
    }

    /// True if anything keeps a program from the files and the network.
    pub fn confine(&self) -> bool {
        Layer::KERNEL.iter().any(|layer| self.contains(*layer))
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|layer| layer.name()).collect();
        formatter.write_str(&names.join(", "))
    }
}
