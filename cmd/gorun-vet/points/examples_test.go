package points

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	driver "golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// examples are the repository's.
const examples = "../../../examples"

// load loads packages of the repository, with some files replaced.
func load(t *testing.T, overlay map[string][]byte, patterns ...string) []*packages.Package {
	t.Helper()
	dir, err := filepath.Abs(examples)
	if err != nil {
		t.Fatal(err)
	}
	all, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir, Overlay: overlay}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		for _, e := range p.Errors {
			t.Fatalf("%s: %v", p.PkgPath, e)
		}
	}
	return all
}

// analyze returns what is reported, by package.
func analyze(t *testing.T, pkgs []*packages.Package) map[string][]analysis.Diagnostic {
	t.Helper()
	graph, err := driver.Analyze([]*analysis.Analyzer{Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]analysis.Diagnostic{}
	for _, a := range graph.Roots {
		if a.Err != nil {
			t.Fatalf("%s: %v", a.Package.PkgPath, a.Err)
		}
		found[a.Package.PkgPath] = a.Diagnostics
	}
	return found
}

// TestExamples: the examples are right as they are.
func TestExamples(t *testing.T) {
	looked := 0
	for path, all := range analyze(t, load(t, nil, "./...")) {
		looked++
		for _, d := range all {
			t.Errorf("%s: %s", path, d.Message)
		}
	}
	if looked < 20 {
		t.Errorf("%d packages", looked)
	}
}

// TestStripped takes the calls of package cr out of examples. The loop is found, and the variables that were
// registered; with the fixes they compile again and nothing is left to report.
func TestStripped(t *testing.T) {
	all = true
	defer func() { all = false }()
	overlay, files, names := map[string][]byte{}, map[string]string{}, map[string][]string{
		"life": {"b.now", "generation"}, "kmeans": {"before", "centres", "round"},
		"nbody": {"g.stars", "step"}, "shallowwater": {"b.now", "clock", "step"}, "summa": {"k", "m.product"}, "ring": {"lap"}, "floyd": {"dist", "k"},
	}
	var patterns []string
	for name := range names {
		path, err := filepath.Abs(filepath.Join(examples, name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		files[name], patterns = path, append(patterns, "./"+name)
		overlay[path] = stripped(t, path)
	}
	pkgs := load(t, overlay, patterns...)
	reported := analyze(t, pkgs)
	for path, found := range reported {
		name := filepath.Base(path)
		if len(found) != 1 || !strings.Contains(found[0].Message, "no Point") {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		_, list, _ := strings.Cut(found[0].Message, "registered: ")
		if got := strings.Split(list, ", "); !slices.Equal(got, names[name]) {
			t.Errorf("%s: to be registered are %q, want %q", name, got, names[name])
		}
	}
	fixed := fix(t, overlay, pkgs, reported)
	for path, found := range analyze(t, load(t, fixed, patterns...)) {
		for _, d := range found {
			t.Errorf("fixed %s: %s", path, d.Message)
		}
	}
	for name, path := range files {
		if n := bytes.Count(fixed[path], []byte(".Register(")); n != len(names[name]) || bytes.Count(fixed[path], []byte(".Point()")) != 1 {
			t.Errorf("fixed %s:\n%s", name, fixed[path])
		}
	}
}

// fix applies what is suggested.
func fix(t *testing.T, overlay map[string][]byte, pkgs []*packages.Package, reported map[string][]analysis.Diagnostic) map[string][]byte {
	t.Helper()
	fixed := map[string][]byte{}
	for path, found := range reported {
		i := slices.IndexFunc(pkgs, func(p *packages.Package) bool { return p.PkgPath == path })
		var edits []analysis.TextEdit
		for _, d := range found {
			for _, f := range d.SuggestedFixes {
				edits = append(edits, f.TextEdits...)
			}
		}
		slices.SortFunc(edits, func(a, b analysis.TextEdit) int { return int(b.Pos - a.Pos) }) // from behind
		for _, e := range edits {
			at, end := pkgs[i].Fset.Position(e.Pos), pkgs[i].Fset.Position(e.End)
			src := fixed[at.Filename]
			if src == nil {
				src = overlay[at.Filename]
			}
			fixed[at.Filename] = slices.Concat(src[:at.Offset], e.NewText, src[end.Offset:])
		}
	}
	for path, src := range fixed {
		b, err := format.Source(src)
		if err != nil {
			t.Fatalf("%s: %v\n%s", path, err, src)
		}
		fixed[path] = b
	}
	return fixed
}

// stripped takes the calls of cr out of a file.
func stripped(t *testing.T, path string) []byte {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	calls := func(n ast.Node, names ...string) (yes bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				yes = yes || slices.Contains(names, s.Sel.Name)
			}
			return !yes
		})
		return yes
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if b, ok := n.(*ast.BlockStmt); ok {
			b.List = slices.DeleteFunc(b.List, func(s ast.Stmt) bool {
				i, ok := s.(*ast.IfStmt)
				return ok && i.Init != nil && calls(i.Init, "Register", "Point")
			})
			b.List = slices.DeleteFunc(b.List, func(s ast.Stmt) bool {
				a, ok := s.(*ast.AssignStmt)
				if !ok {
					return false
				}
				if i := slices.IndexFunc(a.Rhs, func(e ast.Expr) bool { return calls(e, "On") }); i >= 0 {
					a.Lhs, a.Rhs = slices.Delete(a.Lhs, i, i+1), slices.Delete(a.Rhs, i, i+1)
				}
				return len(a.Lhs) == 0
			})
		}
		return true
	})
	var b bytes.Buffer
	if err := format.Node(&b, fset, f); err != nil {
		t.Fatal(err)
	}
	out := strings.Replace(b.String(), "\t\"github.com/gorun-mpi/gorun/cr\"\n", "", 1)
	if !strings.Contains(out, "errors.") {
		out = strings.Replace(out, "\t\"errors\"\n", "", 1)
	}
	return []byte(out)
}
