package kafkasink

import (
	"testing"

	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// FuzzScram hands a broker's two messages to SCRAM. A broker that does not know the password is
// never taken for one that does.
func FuzzScram(f *testing.F) {
	f.Add([]byte("r=abc,s=QSXCR+Q6sek8bf92,i=4096"), []byte("v=rmF9pqV8S7suAoZWja4dJRkFsKQ="))
	f.Add([]byte("r=,s=,i=2147483647"), []byte("e=other-error"))
	f.Add([]byte("r=abc,i=-1"), []byte{})
	f.Fuzz(func(t *testing.T, first, last []byte) {
		exchange, _, err := startScram(t.Context(), scram.Auth{User: "docket", Pass: "s3cret", Nonce: []byte("abc")}.AsSha256Mechanism())
		if err != nil {
			t.Fatal(err)
		}
		if done, _, err := exchange.Next(t.Context(), first); done || err != nil {
			return
		}
		if done, _, err := exchange.Next(t.Context(), last); done && err == nil {
			t.Errorf("the broker that said %q and %q is believed", first, last)
		}
	})
}
