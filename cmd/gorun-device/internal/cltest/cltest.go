// Package cltest gives tests the OpenCL libraries of Debian's packages, all at once. They read the environment of C, which
// os.Setenv does not change: it is for processes to be started.
package cltest

import (
	"os"
	"path/filepath"
)

// Environment returns the present environment and what makes the libraries tell their devices: two of PoCL, Oclgrind, and rusticl on the CPU. Their
// files go to dir.
func Environment(dir string) ([]string, error) {
	vendors := filepath.Join(dir, "vendors")
	if err := os.MkdirAll(vendors, 0o755); err != nil {
		return nil, err
	}
	libraries := map[string]string{"oclgrind.icd": "/usr/lib/oclgrind/liboclgrind-rt-icd.so"} // it has no file of its own
	for _, name := range []string{"pocl.icd", "rusticl.icd"} {
		if text, err := os.ReadFile("/etc/OpenCL/vendors/" + name); err == nil {
			libraries[name] = string(text)
		}
	}
	for name, library := range libraries {
		if err := os.WriteFile(filepath.Join(vendors, name), []byte(library), 0o644); err != nil {
			return nil, err
		}
	}
	return append(os.Environ(), "OCL_ICD_VENDORS="+vendors, "POCL_DEVICES=basic pthread", "POCL_CACHE_DIR="+filepath.Join(dir, "pocl"),
		"RUSTICL_ENABLE=llvmpipe", "TMPDIR="+dir), nil
}
