package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Kind is what users and schemas call it.
const Kind = "s3"

// Config says where a store lies. It holds no secrets.
type Config struct {
	Endpoint string `toml:"endpoint"` // URL of the server, http or https; "": AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's
	Bucket   string `toml:"bucket"`
	Prefix   string `toml:"prefix"` // of all objects, elements joined by slashes; may be ""
	Region   string `toml:"region"` // "": AWS_REGION, AWS_DEFAULT_REGION, else us-east-1
	Part     int64  `toml:"part"`   // bytes of a part; 0: 16 MB. A piece has at most 10,000

	// Getenv looks up variables of the environment; nil: os.Getenv.
	Getenv func(string) string `toml:"-"`

	dial  func(ctx context.Context, network, addr string) (net.Conn, error) // tests: instead of TCP
	tries int                                                               // of a request; 0: 8
	idle  time.Duration                                                     // after which a connection on which nothing moves is broken; 0: a minute
}

const (
	scheme       = "s3://"
	amazon       = "https://s3.amazonaws.com"
	minPart      = 5 << 20 // the protocol's
	defaultPart  = 16 << 20
	maxPart      = 1 << 30
	maxParts     = 10_000 // the protocol's
	defaultTries = 8
	defaultIdle  = time.Minute
)

// ErrConfig says that a Config, or its name, is none.
var ErrConfig = errors.New("not a place in an object store")

// ErrCredentials says that there are none.
var ErrCredentials = errors.New("no credentials")

// Parse reads the name of a place: s3://BUCKET/PREFIX?endpoint=URL&region=NAME&part=BYTES. All but the bucket may be
// left out. Errors: ErrConfig.
func Parse(name string) (Config, error) {
	u, err := url.Parse(name)
	if err != nil || u.Scheme+"://" != scheme || u.User != nil || u.Fragment != "" {
		return Config{}, fmt.Errorf("%w: %q: s3://BUCKET/PREFIX is wanted, with ?endpoint=URL for another server than Amazon's", ErrConfig, name)
	}
	c := Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, fmt.Errorf("%w: %q: %w", ErrConfig, name, err)
	}
	for key, values := range q {
		v := values[len(values)-1]
		switch key {
		case "endpoint":
			c.Endpoint = v
		case "region":
			c.Region = v
		case "part":
			if c.Part, err = strconv.ParseInt(v, 10, 64); err != nil {
				return Config{}, fmt.Errorf("%w: %q: part=%s is no number of bytes", ErrConfig, name, v)
			}
		default:
			return Config{}, fmt.Errorf("%w: %q: known after ? are endpoint, region and part", ErrConfig, name)
		}
	}
	return c, c.check()
}

// String is the name of the place, as Parse reads it.
func (c Config) String() string {
	q := url.Values{}
	for key, v := range map[string]string{"endpoint": c.Endpoint, "region": c.Region} {
		if v != "" {
			q.Set(key, v)
		}
	}
	if c.Part != 0 {
		q.Set("part", strconv.FormatInt(c.Part, 10))
	}
	name := scheme + c.Bucket
	if c.Prefix != "" {
		name += "/" + c.Prefix
	}
	if len(q) > 0 {
		name += "?" + q.Encode()
	}
	return name
}

// Settled returns the Config with what the environment says filled in, so that it means the same elsewhere. Errors:
// ErrConfig.
func (c Config) Settled() (Config, error) {
	c.Endpoint = cmp.Or(c.Endpoint, c.getenv("AWS_ENDPOINT_URL_S3"), c.getenv("AWS_ENDPOINT_URL"), amazon)
	c.Region = cmp.Or(c.Region, c.getenv("AWS_REGION"), c.getenv("AWS_DEFAULT_REGION"), "us-east-1")
	return c, c.check()
}

func (c Config) getenv(name string) string {
	if c.Getenv == nil {
		return os.Getenv(name)
	}
	return c.Getenv(name)
}

func (c Config) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	if len(c.Bucket) < 3 || len(c.Bucket) > 63 || strings.Trim(c.Bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return bad("bucket %q: 3 to 63 small letters, digits, dots and hyphens", c.Bucket)
	}
	for e := range strings.SplitSeq(c.Prefix, "/") {
		if c.Prefix != "" && store.CheckSet(e) != nil {
			return bad("prefix %q: elements of letters, digits, dots, hyphens and underscores, joined by slashes", c.Prefix)
		}
	}
	if c.Part != 0 && (c.Part < minPart || c.Part > maxPart) {
		return bad("part = %d: %d to %d bytes", c.Part, minPart, maxPart)
	}
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return bad("endpoint %q: https://HOST or http://HOST:PORT is wanted", c.Endpoint)
	}
	return nil
}

// Open returns the store. It asks the server nothing yet. Errors: ErrConfig, ErrCredentials.
func Open(c Config) (*Store, error) {
	c, err := c.Settled()
	if err != nil {
		return nil, err
	}
	c.Part, c.tries, c.idle = cmp.Or(c.Part, defaultPart), cmp.Or(c.tries, defaultTries), cmp.Or(c.idle, defaultIdle)
	creds, err := c.credentials()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds: creds, Secure: u.Scheme == "https", Region: c.Region, MaxRetries: c.tries, Transport: c.transport(),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}
	return &Store{cfg: c, core: core, secure: u.Scheme == "https"}, nil
}

func (c Config) credentials() (*credentials.Credentials, error) {
	id, secret := c.getenv("AWS_ACCESS_KEY_ID"), c.getenv("AWS_SECRET_ACCESS_KEY")
	if id != "" && secret != "" {
		return credentials.NewStaticV4(id, secret, c.getenv("AWS_SESSION_TOKEN")), nil
	}
	creds := credentials.NewFileAWSCredentials(c.getenv("AWS_SHARED_CREDENTIALS_FILE"), c.getenv("AWS_PROFILE"))
	if v, err := creds.GetWithContext(nil); err != nil || v.AccessKeyID == "" {
		return nil, fmt.Errorf("%s%s: %w: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN where one belongs to them), or write them to ~/.aws/credentials on each node",
			scheme, c.Bucket, ErrCredentials)
	}
	return creds, nil
}

// usual is the transport of all stores, so that they share connections.
var usual = newTransport(defaultIdle)

func (c Config) transport() *http.Transport {
	if c.dial != nil {
		t := newTransport(c.idle)
		t.DialContext = c.dial
		return t
	}
	if c.idle == defaultIdle {
		return usual
	}
	return newTransport(c.idle)
}

func newTransport(idle time.Duration) *http.Transport {
	d := &net.Dialer{Timeout: min(idle, 10*time.Second)}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true,
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      64 << 10,
		DialContext:         dialer(d, idle),
	}
}
