//! Checkpoints that differ from the tiny ones in one thing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use half::{bf16, f16};
use lacuna_models::{Checkpoint, CpuPredictor};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::data;

/// A copy of a checkpoint that is deleted at the end of the test.
pub(crate) struct Altered {
    directory: TempDir,
}

/// The parts of a tensor.
pub(crate) struct Parts {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Altered {
    pub(crate) fn copy(model: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(data(model)).unwrap().map(Result::unwrap) {
            fs::write(directory.path().join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
        }
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn write(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path().join(name), content).unwrap();
        self
    }

    pub(crate) fn remove(self, name: &str) -> Self {
        fs::remove_file(self.path().join(name)).unwrap();
        self
    }

    pub(crate) fn truncate(self, name: &str, keep: usize) -> Self {
        let content = fs::read(self.path().join(name)).unwrap();
        self.write(name, &content[..keep])
    }

    /// Changes a JSON file.
    pub(crate) fn edit(self, name: &str, edit: impl FnOnce(&mut Map<String, Value>)) -> Self {
        let mut json: Value = serde_json::from_slice(&fs::read(self.path().join(name)).unwrap()).unwrap();
        edit(json.as_object_mut().unwrap());
        self.write(name, serde_json::to_vec_pretty(&json).unwrap())
    }

    /// Sets one value in config.json.
    pub(crate) fn set(self, key: &str, value: impl Into<Value>) -> Self {
        self.edit("config.json", |config| drop(config.insert(key.to_string(), value.into())))
    }

    /// Changes the tensors of model.safetensors.
    pub(crate) fn tensors(self, edit: impl FnOnce(&mut BTreeMap<String, Parts>)) -> Self {
        let bytes = fs::read(self.path().join("model.safetensors")).unwrap();
        let parts = |view: TensorView<'_>| Parts {
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
            bytes: view.data().to_vec(),
        };
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let mut tensors = file.tensors().into_iter().map(|(name, view)| (name, parts(view))).collect();
        edit(&mut tensors);
        let views: BTreeMap<_, _> = tensors.iter().map(|(name, parts)| (name, parts.view())).collect();
        fs::write(self.path().join("model.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
        self
    }

    /// Changes one tensor of model.safetensors.
    pub(crate) fn tensor(self, name: &str, edit: impl FnOnce(&mut Parts)) -> Self {
        self.tensors(|tensors| edit(tensors.get_mut(name).unwrap()))
    }

    /// Stores all numbers in another type.
    pub(crate) fn convert(self, dtype: Dtype) -> Self {
        self.tensors(|tensors| tensors.values_mut().for_each(|parts| parts.convert(dtype)))
    }

    /// Opens it and loads its weights.
    pub(crate) fn load(&self) -> lacuna_models::Result<CpuPredictor> {
        CpuPredictor::load(&Checkpoint::open(self.path())?, None)
    }

    /// The error of loading it, without the directory's name.
    pub(crate) fn refusal(&self) -> String {
        let error = self.load().err().expect("it must not load").to_string();
        assert!(!error.contains('\n'), "not one line: {error}");
        error.replace(&format!("{}/", self.path().display()), "").replace(&self.path().display().to_string(), "DIR")
    }
}

impl Parts {
    pub(crate) fn floats(&self) -> Vec<f32> {
        self.bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
    }

    fn view(&self) -> TensorView<'_> {
        TensorView::new(self.dtype, self.shape.clone(), &self.bytes).unwrap()
    }

    fn convert(&mut self, dtype: Dtype) {
        let floats = self.floats();
        self.bytes = match dtype {
            Dtype::F16 => floats.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect(),
            Dtype::BF16 => floats.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect(),
            other => panic!("no conversion to {other:?}"),
        };
        self.dtype = dtype;
    }
}
