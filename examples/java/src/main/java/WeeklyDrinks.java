import static java.util.stream.Collectors.joining;

import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.io.TextIO;
import org.apache.beam.sdk.schemas.Schema;
import org.apache.beam.sdk.transforms.FlatMapElements;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.transforms.WithTimestamps;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.Row;
import org.apache.beam.sdk.values.TypeDescriptors;
import org.joda.time.Instant;

/** Several rankings of "user,drink,time,price" lines, windows by their times; charged.py has the parameters of each. */
public class WeeklyDrinks {
  private static final Schema ORDER =
      Schema.builder()
          .addStringField("user")
          .addStringField("item")
          .addDateTimeField("at")
          .addDoubleField("price")
          .build();

  // A time of another year than these may be none that Beam can hold, which would end the job.
  private static final Pattern LINE = Pattern.compile("([^,]*),([^,]*),(\\d{4}-[^,]*),([^,]*)");

  public static void main(String[] args) throws Exception {
    Pipeline pipeline = pipeline(args);
    TopDrinks.run(pipeline, pipeline.getOptions().as(TopDrinks.Options.class).getParameters().keySet().toArray());
  }

  /** One ranking of each entry of --parameters, written to files of its name. */
  static Pipeline pipeline(String... args) throws Exception {
    Pipeline pipeline = TopDrinks.empty(args);
    var options = pipeline.getOptions().as(TopDrinks.Options.class);
    PCollection<Row> orders =
        pipeline
            .apply("Read orders", TextIO.read().from(options.getInput()))
            .apply("As rows", FlatMapElements.into(TypeDescriptors.rows()).via(line -> TopDrinks.counted(order(line))))
            .setRowSchema(ORDER)
            .apply("Times", WithTimestamps.of(row -> row.getDateTime("at").toInstant()));
    for (var ranking : options.getParameters().entrySet()) {
      String name = ranking.getKey();
      @SuppressWarnings("unchecked")
      var parameters = (Map<String, Object>) ranking.getValue();
      PCollection<String> lines =
          orders
              .apply("Rank " + name, TopDrinks.rank(options, parameters))
              .apply("Lines of " + name, MapElements.into(TypeDescriptors.strings()).via(WeeklyDrinks::line));
      TopDrinks.write(options, lines, options.getOutput() + "-" + name);
    }
    return pipeline;
  }

  private static Optional<Row> order(String line) {
    Matcher found = LINE.matcher(line);
    if (!found.matches()) {
      return Optional.empty();
    }
    try {
      Instant at = Instant.parse(found.group(3));
      double price = Double.parseDouble(found.group(4));
      return Optional.of(Row.withSchema(ORDER).addValues(found.group(1), found.group(2), at, price).build());
    } catch (IllegalArgumentException unreadable) {
      return Optional.empty();
    }
  }

  private static String line(Row row) {
    return row.getValues().stream().map(String::valueOf).collect(joining(","));
  }
}
