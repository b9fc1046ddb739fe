// A job of Flink that prints what it reads. The test puts the code of docs/sinks/kafka-consumers.md in the place of the second comment.

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

public class Job {
    public static void main(String[] args) throws Exception {
        String brokers = args[0];
        // The source.
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "decisions").print();
        env.execute();
    }
}
