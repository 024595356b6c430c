// Produces with franz-go, every compression in turn, and consumes the records with a share group of several members.
//
// Arguments: bootstrap servers, topic, group, members, records, and the bootstrap servers of the cluster that has the records,
// if it is another one. Writes a line "partition offset delivery-count value"
// for each delivery, and a line "error ..." for each acknowledgement that was rejected; ends when all records are finished.
// With "login" as second argument it authenticates instead (login.go), with "retry" it lets deliveries fail (retry.go).
// Without members and records it only tries to join a share group on a server without share groups.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type tour struct {
	seeds, log   kgo.Opt
	topic, group string
	records      int
	unfinished   atomic.Int64
	out          sync.Mutex
}

func main() {
	log.SetFlags(0)
	if os.Args[2] == "login" {
		login(os.Args[1], os.Args[3:])
		return
	}
	if os.Args[2] == "retry" {
		retry(os.Args[1], os.Args[3:])
		return
	}
	t := &tour{seeds: seeds(os.Args[1]), topic: os.Args[2], group: os.Args[3]}
	t.log = t.seeds
	if len(os.Args) == 7 {
		t.log = seeds(os.Args[6])
	}
	if len(os.Args) == 4 {
		t.unsupported()
		return
	}
	members := number(os.Args[4])
	t.records = number(os.Args[5])
	t.unfinished.Store(int64(t.records))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	t.produce(ctx)
	ctx, done := context.WithCancel(ctx)
	var group sync.WaitGroup
	for range members {
		group.Add(1)
		go func() {
			defer group.Done()
			t.consume(ctx, done)
		}()
	}
	group.Wait()
	if left := t.unfinished.Load(); left > 0 {
		log.Fatalf("%d records are not finished", left)
	}
}

// produce sends each record with a header, a key except for every fifth, and the compression of its number.
func (t *tour) produce(ctx context.Context) {
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for first, codec := range codecs {
		client := connect(t.log, kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(t.topic))
		for n := first; n < t.records; n += len(codecs) {
			record := kgo.StringRecord(fmt.Sprint("record ", n))
			record.Headers = []kgo.RecordHeader{{Key: "number", Value: []byte(strconv.Itoa(n))}}
			if first > 0 {
				record.Key = []byte(strconv.Itoa(n))
			}
			client.Produce(ctx, record, func(_ *kgo.Record, err error) { check(err) })
		}
		check(client.Flush(ctx))
		client.Close()
	}
}

// consume runs one member until all records are finished.
func (t *tour) consume(ctx context.Context, done func()) {
	client := t.client(kgo.ShareGroup(t.group), kgo.ConsumeTopics(t.topic), kgo.ShareAckCallback(t.rejected))
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 50)
		if ctx.Err() == nil {
			check(fetches.Err())
		}
		var renewed []*kgo.Record
		fetches.EachRecord(func(record *kgo.Record) {
			if t.decide(record) == kgo.AckRenew {
				renewed = append(renewed, record)
			}
		})
		flush(client)
		if len(renewed) > 0 { // without records the call would apply to all polled records
			client.MarkAcks(kgo.AckAccept, renewed...)
			flush(client)
		}
		if t.unfinished.Load() == 0 {
			done()
		}
	}
}

// decide releases every fourth record at its first delivery, rejects every fourth and renews every fourth.
func (t *tour) decide(record *kgo.Record) kgo.AckStatus {
	t.print("%d %d %d %s", record.Partition, record.Offset, record.DeliveryCount(), record.Value)
	status := []kgo.AckStatus{kgo.AckAccept, kgo.AckRelease, kgo.AckReject, kgo.AckRenew}[number(string(record.Headers[0].Value))%4]
	if status == kgo.AckRelease && record.DeliveryCount() > 1 {
		status = kgo.AckAccept
	}
	record.Ack(status)
	if status != kgo.AckRelease {
		t.unfinished.Add(-1)
	}
	return status
}

func flush(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check(client.FlushAcks(ctx))
}

func (t *tour) rejected(_ *kgo.Client, results kgo.ShareAckResults) {
	for _, result := range results {
		if result.Err != nil {
			t.print("error %d %v", result.Partition, result.Err)
		}
	}
}

func seeds(addresses string) kgo.Opt {
	return kgo.SeedBrokers(strings.Split(addresses, ",")...)
}

func (t *tour) client(options ...kgo.Opt) *kgo.Client {
	return connect(t.seeds, options...)
}

func connect(seeds kgo.Opt, options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, seeds)...)
	check(err)
	return client
}

func (t *tour) print(text string, values ...any) {
	t.out.Lock()
	defer t.out.Unlock()
	fmt.Printf(text+"\n", values...)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
