// The timeline of a campaign as SVG: who held what, and the faults.
#ifndef HOLDFAST_TEST_CAMPAIGN_PICTURE_HPP
#define HOLDFAST_TEST_CAMPAIGN_PICTURE_HPP

#include "campaign/history.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <map>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::campaign {

struct fault_time {
    std::string name;
    moment from, to;
    milliseconds bound{0}; ///< from its beginning; see fault
};

class picture {
public:
    /// From the beginning of the first lease to the end of the last.
    picture(history const& h, std::vector<fault_time> const& faults)
        : history_(h)
        , faults_(faults) {
        for (auto const& c : h.claims) {
            rows_[c.key] = 0;
            begin_ = std::min(begin_, c.begins);
            end_ = std::max(end_, c.ends);
        }
        if (h.claims.empty()) begin_ = end_ = moment(0);
        std::size_t next = 0;
        for (auto& [key, row] : rows_) row = next++;
    }

    void write(std::string const& path) const {
        std::ofstream out(path);
        auto const height = static_cast<int>(bottom());
        out << std::fixed << std::setprecision(1)
            << "<svg xmlns='http://www.w3.org/2000/svg' width='" << width << "' height='" << height
            << "' viewBox='0 0 " << width << ' ' << height
            << "' role='img' font-family='Helvetica,Arial,sans-serif' font-size='11'>\n"
            << "<title>Who held which key in a campaign</title>\n<rect width='" << width
            << "' height='" << height << "' fill='#ffffff'/>\n";
        draw_faults(out);
        for (auto const& [key, row] : rows_) {
            write(out, 2, top(row) + 10, key);
        }
        draw_claims(out);
        draw_seconds(out);
        out << "</svg>\n";
        if (!out) throw std::runtime_error("the picture " + path + " cannot be written");
    }

private:
    static constexpr int width = 1'200;
    static constexpr double left = 110, line = 13, faults_height = 60;

    double x(moment t) const {
        auto const part = static_cast<double>((std::clamp(t, begin_, end_) - begin_).count()) /
                          static_cast<double>(std::max((end_ - begin_).count(), std::int64_t{1}));
        return left + part * (width - left - 2);
    }
    static double top(std::size_t row) { return faults_height + line * static_cast<double>(row); }
    double bottom() const { return top(rows_.size()) + 16; }

    void draw_faults(std::ostream& out) const {
        int n = 0;
        for (auto const& f : faults_) {
            auto const at = x(f.from);
            out << "<rect x='" << at << "' y='0' width='" << std::max(x(f.to) - at, 0.5)
                << "' height='" << bottom() - 16 << "' fill='#eaeef2'/>\n";
        }
        for (auto const& f : faults_) write(out, x(f.from), 10 + 12 * (n++ % 4), f.name);
    }
    /// Each client has a color. The part in which a writer only reads is lighter, as is a reader.
    void draw_claims(std::ostream& out) const {
        static constexpr std::array<std::string_view, 4> colors{"#1f6feb", "#bf8700", "#1b1f24",
                                                                "#8c959f"};
        std::map<std::pair<std::string_view, bool>, std::ostringstream> lines;
        auto const line_of = [&](claim const& c, moment from, moment to, bool reads) {
            auto& all = lines[{colors[c.client % colors.size()], reads}];
            all << std::fixed << std::setprecision(1) << 'M' << x(from) << ' '
                << top(rows_.at(c.key)) + line / 2 << 'h' << std::max(x(to) - x(from), 0.2);
        };
        for (auto const& c : history_.claims) {
            auto const reads = c.how == lock_access::read ? c.begins : c.reads.value_or(c.ends);
            if (reads > c.begins || reads == c.ends) line_of(c, c.begins, reads, false);
            if (reads < c.ends) line_of(c, reads, c.ends, true);
        }
        for (auto const& [look, all] : lines) {
            out << "<path stroke='" << look.first << "' stroke-opacity='"
                << (look.second ? 0.4 : 1.0) << "' stroke-width='" << line - 3 << "' d='"
                << all.str() << "'/>\n";
        }
    }
    void draw_seconds(std::ostream& out) const {
        auto const all = std::chrono::floor<std::chrono::seconds>(end_ - begin_);
        for (auto s = 0s; s <= all; s += std::max(all / 12, std::chrono::seconds(1))) {
            write(out, x(begin_ + s), bottom() - 4, std::to_string(s.count()) + " s");
        }
    }
    static void write(std::ostream& out, double x, double y, std::string const& text) {
        out << "<text x='" << x << "' y='" << y << "' fill='#57606a'>" << text << "</text>\n";
    }

    history const& history_;
    std::vector<fault_time> const& faults_;
    std::map<std::string, std::size_t> rows_;
    moment begin_ = moment::max(), end_ = moment::min();
};

} // namespace holdfast::campaign

#endif
