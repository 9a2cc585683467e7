package mpi_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/exampletest"
)

// Every exported function and method has an Example that is run, names its errors, and says in which chapter of the standard it
// stands, or is about Go alone.
func TestEveryCallIsShown(t *testing.T) {
	// Methods that make a value an error.
	calls := slices.DeleteFunc(exampletest.Calls(t), func(c exampletest.Call) bool {
		return slices.Contains([]string{"Error_Error", "Error_Unwrap", "RequestError_Error", "RequestError_Unwrap", "TaskError_Error", "TaskError_Unwrap"}, c.Name)
	})
	var run []string // by TestProcess
	for name := range programs {
		if name, ok := strings.CutPrefix(name, "example "); ok {
			run = append(run, name)
		}
	}
	exampletest.Check(t, calls, run...)
	outside := []string{"SendObject", "Health", "State_String", "RecvObject", "Comm_WithCodec", "Comm_WithContext", "Comm_String", "Run",
		"WithContext", "Cart_WithContext", "Graph_WithContext", "NewHalo", "Comparison_String",
		"IsendObject", "IrecvObject", "Map", "RunPool", "Pool_Submit", "Pool_Map", "Future_Wait", "Future_Done"}
	for _, c := range calls {
		text := c.Decl.Doc.Text()
		if returnsError(c.Decl.Type) && !namesErrors.MatchString(text) {
			t.Errorf("%s does not name its errors", c.Name)
		}
		if c.File != "op.go" && !slices.Contains(outside, c.Name) && !strings.Contains(text, "MPI-4.1") { // that of operators is told once
			t.Errorf("%s does not name its chapter", c.Name)
		}
	}
	if len(calls) < 70 {
		t.Errorf("only %d calls were found", len(calls))
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
