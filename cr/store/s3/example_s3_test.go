package s3_test

import (
	"context"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/s3"
)

// A place has a name, which holds no secrets.
func ExampleParse() {
	c, err := s3.Parse("s3://snapshots/cluster?endpoint=https://s3.example.org&region=eu-central-1")
	fmt.Println(c.Bucket, c.Prefix, c.Endpoint, c.Region, err)
	_, err = s3.Parse("s3://id:secret@snapshots")
	fmt.Println(err != nil)
	// Output:
	// snapshots cluster https://s3.example.org eu-central-1 <nil>
	// true
}

func ExampleConfig_String() {
	fmt.Println(s3.Config{Bucket: "snapshots", Prefix: "cluster", Region: "eu-central-1"})
	// Output: s3://snapshots/cluster?region=eu-central-1
}

// What the environment says of the server is settled once, so that the place means the same elsewhere.
func ExampleConfig_Settled() {
	env := map[string]string{"AWS_ENDPOINT_URL": "http://storage:9000", "AWS_REGION": "here"}
	c, err := s3.Config{Bucket: "snapshots", Getenv: func(name string) string { return env[name] }}.Settled()
	fmt.Println(c.Endpoint, c.Region, err)
	// Output: http://storage:9000 here <nil>
}

// Opening a store asks nobody yet. Credentials must be there.
func ExampleOpen() {
	env := map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
	st, err := s3.Open(s3.Config{Bucket: "snapshots", Getenv: func(name string) string { return env[name] }})
	if err != nil {
		fmt.Println(err)
		return
	}
	var _ store.Store = st
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = st.Stat(ctx, "job/1", "rank-00000.img")
	fmt.Println(st.Kind(), st.Shared(), err)
	// Output: s3 true s3://snapshots/job/1/rank-00000.img at http://127.0.0.1:1: context canceled
}
