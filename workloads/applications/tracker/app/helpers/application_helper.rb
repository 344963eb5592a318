# frozen_string_literal: true

module ApplicationHelper
  SECTIONS = { "Work" => %i[projects issues milestones sprints time_entries activities],
               "Code" => %i[changesets components releases], "Words" => %i[wiki_pages documents news_items forums topics],
               "People" => %i[organizations teams users], "Sales" => %i[customers invoices products] }.freeze

  def badge(text) = tag.span(text.to_s.humanize, class: ["badge", text.to_s.parameterize])

  def yes_or_no(value) = tag.span(value ? "yes" : "no", class: value ? "yes" : "no")

  # What a form offers for an association, a hundred at most.
  def choices(model) = Rails.cache.fetch("choices/#{model.name}") { model.order(:id).limit(100).to_a }

  # Text as a page: Markdown, with code coloured, cleaned, and links to issues.
  def written(text)
    html = Kramdown::Document.new(text.to_s, syntax_highlighter: :rouge).to_html
    sanitize(html.gsub(/#(\d+)/) { link_to("##{$1}", issue_path($1)) }, tags: %w[p a em strong code pre ul ol li h1 h2 h3 span div table tr td th thead tbody blockquote])
  end

  def sort_link(column)
    down = params[:sort] == column.to_s && !params[:down]
    link_to column.to_s.humanize, url_for(params.permit(:q, :page).merge(sort: column, down: down ? 1 : nil)), class: ("sorted" if params[:sort] == column.to_s)
  end

  def page_links
    (([1, page - 3].max)..[pages, page + 3].min).map do |number|
      number == page ? tag.strong(number) : link_to(number, url_for(params.permit(:q, :sort, :down).merge(page: number)))
    end.then { |links| safe_join(links, " ") }
  end
end
