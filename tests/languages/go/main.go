// A work-queue consumer: worker ADDRESS GROUP TOPIC COUNT.
//
// Acknowledges each record separately and waits for its durable result. The program ends when COUNT records or more are
// finished, or on SIGINT or SIGTERM. Before it ends, it receives the results of its acknowledgements; the server releases
// the other records.
package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	delivery "worker/gen/sharebroker/delivery/v1"
	gateway "worker/gen/sharebroker/gateway/v1"
)

const credit = 10

func main() {
	if len(os.Args) != 5 {
		log.Fatalln("worker ADDRESS GROUP TOPIC COUNT")
	}
	address, group, topic := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	connection := connect(address)
	defer connection.Close()

	stream, err := gateway.NewShareServiceClient(connection).Consume(authorized(context.Background()))
	check(err)
	check(stream.Send(&gateway.ConsumeRequest{
		Subscribe: &gateway.ConsumeRequest_Subscribe{
			GroupId: group, Topics: []string{topic}, Decode: true, AsText: true, ClientId: "go",
		},
		Credit: credit,
	}))
	answers := make(chan *gateway.ConsumeResponse)
	go receive(stream, answers)

	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	final := map[uint64]bool{} // by the id of an acknowledgement: whether the record is then finished
	for finished, stopping := 0, stopped.Done(); ; {
		select {
		case <-stopping:
			stopping = nil
			check(stream.CloseSend())
		case answer, more := <-answers:
			if !more {
				return
			}
			for _, result := range answer.Results {
				if result.ErrorCode != 0 {
					log.Fatalln("not applied:", result.ErrorMessage)
				}
				if final[result.Id] {
					finished++
				}
			}
			if finished >= count {
				stop()
			}
			if len(answer.Records) > 0 && stopped.Err() == nil {
				check(stream.Send(answered(answer.Records, final)))
			}
		}
	}
}

// connect returns a connection, over TLS if SHAREBROKER_CA names the file of the server's authority.
func connect(address string) *grpc.ClientConn {
	transport := insecure.NewCredentials()
	if authority := os.Getenv("SHAREBROKER_CA"); authority != "" {
		var err error
		transport, err = credentials.NewClientTLSFromFile(authority, "")
		check(err)
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	check(err)
	return connection
}

// authorized returns a context with the access token or the user of the environment; TLS protects it.
func authorized(ctx context.Context) context.Context {
	token, user := os.Getenv("SHAREBROKER_TOKEN_FILE"), os.Getenv("SHAREBROKER_USER")
	if token == "" && user == "" {
		return ctx
	}
	if os.Getenv("SHAREBROKER_CA") == "" {
		log.Fatalln("a user or a token needs SHAREBROKER_CA")
	}
	if token != "" {
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(read(token)))
	}
	password, _, _ := strings.Cut(read(os.Getenv("SHAREBROKER_PASSWORD_FILE")), "\n")
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Basic "+basic)
}

func read(file string) string {
	content, err := os.ReadFile(file)
	check(err)
	return string(content)
}

// receive forwards responses until the stream ends.
func receive(stream gateway.ShareService_ConsumeClient, answers chan<- *gateway.ConsumeResponse) {
	defer close(answers)
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			return
		}
		check(err)
		answers <- answer
	}
}

// answered returns a verdict for each record, and credit for as many more.
func answered(records []*gateway.ShareRecord, final map[uint64]bool) *gateway.ConsumeRequest {
	request := &gateway.ConsumeRequest{Credit: int32(len(records))}
	for _, record := range records {
		id := uint64(len(final) + 1)
		verdict := decide(record.GetText(), record.DeliveryCount)
		final[id] = verdict != delivery.AcknowledgeType_ACKNOWLEDGE_TYPE_RELEASE
		fmt.Println(record.Partition, record.Offset, record.DeliveryCount, record.GetText())
		request.Acknowledgements = append(request.Acknowledgements, &delivery.Acknowledgement{
			Id: id, TopicId: record.TopicId, Partition: record.Partition, FirstOffset: record.Offset,
			LockToken: record.LockToken, Type: verdict,
		})
	}
	return request
}

// decide accepts a record, but rejects "bad" ones and releases "later" ones at their first delivery.
func decide(text string, deliveries int32) delivery.AcknowledgeType {
	switch {
	case strings.HasPrefix(text, "bad"):
		return delivery.AcknowledgeType_ACKNOWLEDGE_TYPE_REJECT
	case strings.HasPrefix(text, "later") && deliveries == 1:
		return delivery.AcknowledgeType_ACKNOWLEDGE_TYPE_RELEASE
	}
	return delivery.AcknowledgeType_ACKNOWLEDGE_TYPE_ACCEPT
}

func check(err error) {
	if err != nil {
		log.Fatalln(err)
	}
}
