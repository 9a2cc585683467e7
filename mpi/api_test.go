package mpi_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/exampletest"
)

// Nothing that a program sees of this package is a type that it cannot import.
func TestNoInternalTypes(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 30 {
		t.Fatal(len(files), err)
	}
	imports := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		internal := map[string]bool{}
		for _, i := range f.Imports {
			if p, _ := strconv.Unquote(i.Path.Value); strings.Contains(p, "/internal/") {
				internal[path.Base(p)] = true
				imports++
			}
		}
		for _, d := range f.Decls {
			for _, shown := range exposed(d) {
				ast.Inspect(shown, func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok {
						if x, ok := s.X.(*ast.Ident); ok && internal[x.Name] {
							t.Errorf("%s: %s.%s is internal", set.Position(n.Pos()), x.Name, s.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
	if imports == 0 {
		t.Error("no file imports anything internal: this test looks for the wrong thing")
	}
}

// exposed are the types in a declaration that programs see.
func exposed(d ast.Decl) (all []ast.Node) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(exampletest.Receiver(d.Recv.List[0].Type))) {
			all = append(all, d.Type)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					all = append(all, s.Type)
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					all = append(all, members(s.Type)...)
				}
			}
		}
	}
	return all
}

// members are the parts of a type that programs see: of a struct, the exported fields.
func members(t ast.Expr) (all []ast.Node) {
	s, ok := t.(*ast.StructType)
	if !ok {
		return []ast.Node{t}
	}
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 && ast.IsExported(exampletest.Receiver(f.Type)) || len(f.Names) > 0 && f.Names[0].IsExported() {
			all = append(all, f.Type)
		}
	}
	return all
}
