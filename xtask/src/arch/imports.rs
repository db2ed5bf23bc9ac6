//! Finds the files of a crate that a file imports: from its `use` declarations and from the paths in its code that
//! begin with `crate`, `super`, `self` or a child's name. A re-exported name counts as an import of the file that
//! defines it. Unit tests and `mod` declarations do not count: a parent must name its children.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

/// The files of one crate by module path (`["wire", "h1"]`), the root by the empty path.
type Modules = BTreeMap<Vec<String>, PathBuf>;

/// Re-exports with their targets, both as absolute paths.
type Reexports = BTreeMap<Vec<String>, Vec<String>>;

/// For each file below `source`, relative to it, the other files that it imports.
pub(super) fn of_crate(source: &Path) -> anyhow::Result<BTreeMap<PathBuf, BTreeSet<PathBuf>>> {
    let mut modules = Modules::new();
    collect(source, source, &mut modules)?;
    let mut reexports = Reexports::new();
    let mut read = BTreeMap::new();
    for (module, file) in &modules {
        let text = std::fs::read_to_string(source.join(file))?;
        let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        let mut reader = Reader { module, modules: &modules, paths: Vec::new(), reexports: &mut reexports };
        reader.visit_file(&parsed);
        read.insert(file, reader.paths);
    }
    let mut imports = BTreeMap::new();
    for (file, paths) in read {
        let targets = paths.into_iter().filter_map(|path| defining(&modules, &reexports, path));
        let targets = targets.filter(|target| target != file).collect();
        imports.insert(file.clone(), targets);
    }
    Ok(imports)
}

fn collect(source: &Path, folder: &Path, modules: &mut Modules) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(source, &path, modules)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = path.strip_prefix(source)?.to_owned();
            // A program next to a library is a separate crate.
            if file != Path::new("main.rs") || !source.join("lib.rs").exists() {
                modules.insert(module_of(&file), file);
            }
        }
    }
    Ok(())
}

fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// The file that defines what `path` names: re-exports are followed, then the longest module path decides.
fn defining(modules: &Modules, reexports: &Reexports, mut path: Vec<String>) -> Option<PathBuf> {
    // Re-exports of re-exports are few; a cycle of them would not compile.
    while let Some((length, target)) =
        (1..=path.len()).rev().find_map(|length| Some((length, reexports.get(path.get(..length)?)?)))
    {
        path = target.iter().cloned().chain(path.drain(length..)).collect();
    }
    (0..=path.len()).rev().find_map(|length| modules.get(path.get(..length)?)).cloned()
}

/// Collects paths within the crate, absolute.
struct Reader<'a> {
    module: &'a [String],
    modules: &'a Modules,
    paths: Vec<Vec<String>>,
    reexports: &'a mut Reexports,
}

impl Reader<'_> {
    /// Makes a path absolute; `None` if it leads out of the crate or is a plain name.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let mut absolute = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.to_vec(),
            "super" => self.module.get(..self.module.len().checked_sub(1)?)?.to_vec(),
            name => {
                let child: Vec<String> =
                    self.module.iter().map(String::as_str).chain([name]).map(str::to_owned).collect();
                if !self.modules.contains_key(&child) {
                    return None;
                }
                child
            }
        };
        for part in rest {
            if part == "super" {
                absolute.pop();
            } else {
                absolute.push(part.clone());
            }
        }
        Some(absolute)
    }

    fn keep(&mut self, path: &[String]) {
        self.paths.extend(self.absolute(path));
    }

    fn tree(&mut self, before: &mut Vec<String>, tree: &syn::UseTree, is_public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(before, &path.tree, is_public);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.tree(before, item, is_public));
            }
            syn::UseTree::Name(name) => self.leaf(before, &name.ident, &name.ident, is_public),
            syn::UseTree::Rename(rename) => self.leaf(before, &rename.ident, &rename.rename, is_public),
            syn::UseTree::Glob(_) => self.keep(before),
        }
    }

    /// Records one name of a `use`: an import, and also a re-export if it is public.
    fn leaf(&mut self, before: &mut Vec<String>, name: &syn::Ident, known_as: &syn::Ident, is_public: bool) {
        let is_module = name == "self";
        if !is_module {
            before.push(name.to_string());
        }
        if is_public {
            let own: Vec<String> = self.module.iter().cloned().chain([known_as.to_string()]).collect();
            // A function may be re-exported under its module's own name, but a longer path continues in the module.
            if !self.modules.contains_key(&own)
                && let Some(target) = self.absolute(before).filter(|target| *target != own)
            {
                self.reexports.insert(own, target);
            }
        }
        self.keep(before);
        if !is_module {
            before.pop();
        }
    }

    /// Records the paths in a macro's arguments, which are unparsed tokens.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut joined = false;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => joined = true,
                TokenTree::Ident(name) => {
                    if !joined {
                        self.keep(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    joined = false;
                }
                TokenTree::Group(group) => {
                    self.keep(&std::mem::take(&mut path));
                    self.tokens(group.stream());
                    joined = false;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.keep(&std::mem::take(&mut path));
                    joined = false;
                }
            }
        }
        self.keep(&path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            let is_public = !matches!(item.vis, syn::Visibility::Inherited);
            self.tree(&mut Vec::new(), &item.tree, is_public);
        }
    }

    /// The `crate` in `pub(crate)` is not an import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.keep(&names);
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        syn::visit::visit_macro(self, call);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}
