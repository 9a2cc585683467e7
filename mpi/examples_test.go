package mpi_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Every exported function and method has an Example and says in which chapter
// of the standard it stands, or is about Go alone.
func TestEveryCallIsShown(t *testing.T) {
	set := token.NewFileSet()
	pkgs, err := parser.ParseDir(set, ".", func(fs.FileInfo) bool { return true }, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]*ast.FuncDecl{}
	for _, f := range pkgs["mpi_test"].Files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if name, ok := strings.CutPrefix(fn.Name.Name, "Example"); ok {
					examples[name] = fn
				}
			}
		}
	}
	// Methods that belong to a value.
	exempt := map[string]bool{"Error_Error": true, "Error_Unwrap": true, "RequestError_Error": true, "RequestError_Unwrap": true}
	outside := map[string]bool{"SendObject": true, "Health": true, "State_String": true, "RecvObject": true, "Comm_WithCodec": true, "Comm_WithContext": true,
		"Comm_String": true, "Run": true, "WithContext": true, "Cart_WithContext": true, "Graph_WithContext": true, "NewHalo": true, "Comparison_String": true}
	all := 0
	for _, f := range pkgs["mpi"].Files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				on := receiver(fn.Recv.List[0].Type)
				if !ast.IsExported(on) {
					continue
				}
				name = on + "_" + name
			}
			if exempt[name] || strings.HasSuffix(set.Position(fn.Pos()).Filename, "_test.go") {
				continue
			}
			all++
			switch {
			case examples[name] == nil:
				t.Errorf("%s has no example", name)
			case len(examples[name].Body.List) == 1 && calls(examples[name].Body.List[0], examples):
				t.Errorf("the example of %s only calls another one", name)
			}
			if returnsError(fn.Type) && !namesErrors.MatchString(fn.Doc.Text()) {
				t.Errorf("%s does not name its errors", name)
			}
			inOps := strings.HasSuffix(set.Position(fn.Pos()).Filename, "op.go") // the chapter is told once
			if !outside[name] && !inOps && !strings.Contains(fn.Doc.Text(), "MPI-4.1") {
				t.Errorf("%s does not name its chapter", name)
			}
		}
	}
	if all < 70 {
		t.Errorf("only %d calls were found", all)
	}
}

// namesErrors matches the comment of a call that says which errors it returns.
var namesErrors = regexp.MustCompile(`Errors|Err[A-Z]`)

func returnsError(f *ast.FuncType) bool {
	if f.Results == nil {
		return false
	}
	last := f.Results.List[len(f.Results.List)-1]
	id, ok := last.Type.(*ast.Ident)
	return ok && id.Name == "error"
}

// calls reports whether a statement is a call of an example.
func calls(s ast.Stmt, examples map[string]*ast.FuncDecl) bool {
	x, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := x.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := call.Fun.(*ast.Ident)
	return ok && examples[strings.TrimPrefix(fn.Name, "Example")] != nil
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr: // of a type with parameters
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
