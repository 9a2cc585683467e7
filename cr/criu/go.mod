module github.com/gorun-mpi/gorun/cr/criu

go 1.25.0

replace github.com/gorun-mpi/gorun => ../..

require (
	github.com/checkpoint-restore/go-criu/v8 v8.3.0
	github.com/gorun-mpi/gorun v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.47.0
)

require (
	github.com/BurntSushi/toml v1.6.0 // indirect
	github.com/aperturerobotics/protobuf-go-lite v0.14.0 // indirect
	github.com/golang/snappy v1.0.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/schollz/progressbar/v3 v3.18.0 // indirect
	golang.org/x/term v0.45.0 // indirect
)
