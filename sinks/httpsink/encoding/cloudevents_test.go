package encoding

import (
	"testing"
)

func TestCloudEvents(t *testing.T) {
	b := batch(`{"a":1.10}`, `{"a":2}`)
	b.Items[1].Producer, b.Items[1].Late = "pod-a/1", "Replayed"
	wantBody(t, mustNew(t, cloudEventsName, Config{}), b,
		`[{"specversion":"1.0","id":"`+queue+`-41","source":"docket/webhook","type":"dev.docket.decision","time":"2026-01-05T10:04:07.123456789Z",`+
			`"docketsource":"webhook","datacontenttype":"application/json","data":{"a":1.10}},`+
			`{"specversion":"1.0","id":"`+queue+`-42","source":"docket/webhook","type":"dev.docket.decision","time":"2026-01-05T10:04:07.123456789Z",`+
			`"docketsource":"webhook","docketproducer":"pod-a/1","docketlate":"Replayed","datacontenttype":"application/json","data":{"a":2}}]`)

	c := CloudEvents{Type: `com.example."d"`, Source: "https://example.com/a"}
	wantBody(t, mustNew(t, cloudEventsName, Config{CloudEvents: &c}), batch(`{}`),
		`[{"specversion":"1.0","id":"`+queue+`-41","source":"https://example.com/a","type":"com.example.\"d\"","time":"2026-01-05T10:04:07.123456789Z",`+
			`"docketsource":"webhook","datacontenttype":"application/json","data":{}}]`)
}
