package kafkasink

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The exchange of RFC 7677, section 3, begins so.
const (
	rfcSalt  = "W22ZaJ0SNY7soEsUEjb6gQ=="
	rfcFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func newExchange(t *testing.T) (x sasl.StateMachine, nonce string) {
	t.Helper()
	x, first, err := startScram(context.Background(), scram.Auth{User: "a=b,c", Pass: "pencil"}.AsSha256Mechanism())
	if err != nil {
		t.Fatal(err)
	}
	nonce, ok := strings.CutPrefix(string(first), "n,,n=a=3Db=2Cc,r=")
	if !ok {
		t.Fatalf("got %q, want a first message with the username escaped", first)
	}
	return x, nonce
}

// A broker that does not know the password, or makes docket work, is none to send records to.
func TestScramRefusesBrokers(t *testing.T) {
	for name, test := range map[string]struct{ nonce, salt, iterations, final, want string }{
		"nonce of another":    {"another", rfcSalt, "4096", "", "nonce"},
		"too many iterations": {"", rfcSalt, "99999999", "", "99999999"},
		"more than a number":  {"", rfcSalt, "99999999999999999999999", "", "iterations"},
		"too few iterations":  {"", rfcSalt, "1", "", "iterations"},
		"salt is no base64":   {"", "!", "4096", "", "salt"},
		"refused":             {"", rfcSalt, "4096", "e=invalid-proof", "invalid-proof"},
		"another signature":   {"", rfcSalt, "4096", rfcFinal, "signature"},
		"no signature":        {"", rfcSalt, "4096", "v=", "signature"},
	} {
		t.Run(name, func(t *testing.T) {
			x, nonce := newExchange(t)
			if test.nonce != "" {
				nonce = test.nonce
			}
			_, _, err := x.Next(context.Background(), fmt.Appendf(nil, "r=%sx,s=%s,i=%s", nonce, test.salt, test.iterations))
			if test.final != "" {
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = x.Next(context.Background(), []byte(test.final))
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
