package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// codeBody says that a body is not the one that was signed.
const codeBody = "XAmzContentSHA256Mismatch"

// verify checks the signature of a request, and that the body is what was signed. Source: AWS Signature Version 4 for
// API requests, in the IAM User Guide.
func verify(r *http.Request, body []byte) (code string, err error) {
	fields := map[string]string{}
	auth, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	for f := range strings.SplitSeq(auth, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(f), "=")
		fields[k] = v
	}
	date := r.Header.Get("X-Amz-Date")
	if !ok || len(date) < 8 {
		return "AccessDenied", errors.New("not signed")
	}
	scope := strings.Join([]string{date[:8], Region, "s3", "aws4_request"}, "/")
	if fields["Credential"] != KeyID+"/"+scope {
		return "InvalidAccessKeyId", fmt.Errorf("credential %q", fields["Credential"])
	}
	signed := strings.Split(fields["SignedHeaders"], ";")
	sum := sha256.Sum256(body)
	said := r.Header.Get("X-Amz-Content-Sha256")
	if said != hex.EncodeToString(sum[:]) && (said != "UNSIGNED-PAYLOAD" || len(body) > 0) {
		return codeBody, fmt.Errorf("the body's SHA-256 is not %q", said)
	}
	for name := range r.Header {
		if name := strings.ToLower(name); (strings.HasPrefix(name, "x-amz-") || name == "if-none-match" || name == "if-match") && !slices.Contains(signed, name) {
			return "AccessDenied", fmt.Errorf("header %s is not signed", name)
		}
	}
	canonical := strings.Join([]string{r.Method, escape(r.URL.Path, true), query(r.URL.Query()), headers(r, signed), fields["SignedHeaders"], said}, "\n")
	hash := sha256.Sum256([]byte(canonical))
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, hex.EncodeToString(hash[:])}, "\n")
	key := []byte("AWS4" + Secret)
	for _, part := range append(strings.Split(scope, "/"), toSign) {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(key)), []byte(fields["Signature"])) == 0 {
		return "SignatureDoesNotMatch", errors.New("the signature does not fit the request")
	}
	return "", nil
}

func headers(r *http.Request, signed []string) string {
	var b strings.Builder
	for _, name := range signed {
		v := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			v = r.Host
		case "content-length":
			v = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&b, "%s:%s\n", name, strings.TrimSpace(v))
	}
	return b.String()
}

func query(q url.Values) string {
	var all []string
	for k, vs := range q {
		for _, v := range vs {
			all = append(all, escape(k, false)+"="+escape(v, false))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "&")
}

// escape leaves letters, digits, and "-._~" as they are, and slashes of a path.
func escape(s string, path bool) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0, path && c == '/':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
