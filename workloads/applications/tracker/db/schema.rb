# frozen_string_literal: true

ActiveRecord::Schema[7.2].define(version: 1) do
  create_table "organizations" do |t|
    t.string "name"
    t.string "slug"
    t.string "plan"
    t.string "city"
    t.timestamps
  end

  create_table "teams" do |t|
    t.integer "organization_id", null: false, index: true
    t.string "name"
    t.text "purpose"
    t.timestamps
  end

  create_table "roles" do |t|
    t.string "name"
    t.text "permissions"
    t.timestamps
  end

  create_table "users" do |t|
    t.integer "organization_id", null: false, index: true
    t.integer "team_id", null: false, index: true
    t.integer "role_id", null: false, index: true
    t.string "name"
    t.string "email"
    t.string "locale"
    t.text "about"
    t.boolean "active", null: false, default: false
    t.timestamps
  end

  create_table "projects" do |t|
    t.integer "organization_id", null: false, index: true
    t.string "name"
    t.string "key"
    t.text "description"
    t.integer "state", null: false, default: 0
    t.integer "budget"
    t.date "starts_on"
    t.timestamps
  end

  create_table "memberships" do |t|
    t.integer "user_id", null: false, index: true
    t.integer "project_id", null: false, index: true
    t.integer "role_id", null: false, index: true
    t.date "since"
    t.timestamps
  end

  create_table "categories" do |t|
    t.integer "project_id", null: false, index: true
    t.string "name"
    t.text "description"
    t.timestamps
  end

  create_table "components" do |t|
    t.integer "project_id", null: false, index: true
    t.string "name"
    t.string "path"
    t.text "description"
    t.timestamps
  end

  create_table "milestones" do |t|
    t.integer "project_id", null: false, index: true
    t.string "name"
    t.date "due_on"
    t.integer "state", null: false, default: 0
    t.timestamps
  end

  create_table "sprints" do |t|
    t.integer "project_id", null: false, index: true
    t.string "name"
    t.text "goal"
    t.date "starts_on"
    t.date "ends_on"
    t.timestamps
  end

  create_table "releases" do |t|
    t.integer "project_id", null: false, index: true
    t.string "version"
    t.text "notes"
    t.date "released_on"
    t.timestamps
  end

  create_table "issue_types" do |t|
    t.string "name"
    t.string "icon"
    t.integer "position"
    t.timestamps
  end

  create_table "priorities" do |t|
    t.string "name"
    t.integer "weight"
    t.string "colour"
    t.timestamps
  end

  create_table "statuses" do |t|
    t.string "name"
    t.boolean "closed", null: false, default: false
    t.integer "position"
    t.string "colour"
    t.timestamps
  end

  create_table "issues" do |t|
    t.integer "project_id", null: false, index: true
    t.integer "issue_type_id", null: false, index: true
    t.integer "priority_id", null: false, index: true
    t.integer "status_id", null: false, index: true
    t.integer "milestone_id", null: false, index: true
    t.integer "component_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.string "title"
    t.text "description"
    t.decimal "estimate", precision: 10, scale: 2
    t.date "due_on"
    t.integer "position"
    t.timestamps
  end

  create_table "comments" do |t|
    t.integer "issue_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.text "body"
    t.boolean "internal", null: false, default: false
    t.timestamps
  end

  create_table "reactions" do |t|
    t.integer "comment_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.integer "kind", null: false, default: 0
    t.timestamps
  end

  create_table "labels" do |t|
    t.integer "project_id", null: false, index: true
    t.string "name"
    t.string "colour"
    t.timestamps
  end

  create_table "labellings" do |t|
    t.integer "issue_id", null: false, index: true
    t.integer "label_id", null: false, index: true
    t.timestamps
  end

  create_table "watchers" do |t|
    t.integer "issue_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.timestamps
  end

  create_table "dependencies" do |t|
    t.integer "issue_id", null: false, index: true
    t.integer "kind", null: false, default: 0
    t.string "note"
    t.timestamps
  end

  create_table "attachments" do |t|
    t.integer "issue_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.string "name"
    t.string "content_type"
    t.integer "bytes"
    t.timestamps
  end

  create_table "time_entries" do |t|
    t.integer "issue_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.decimal "hours", precision: 10, scale: 2
    t.date "spent_on"
    t.string "note"
    t.timestamps
  end

  create_table "checklists" do |t|
    t.integer "issue_id", null: false, index: true
    t.string "title"
    t.timestamps
  end

  create_table "checklist_items" do |t|
    t.integer "checklist_id", null: false, index: true
    t.string "text"
    t.boolean "done", null: false, default: false
    t.integer "position"
    t.timestamps
  end

  create_table "custom_fields" do |t|
    t.string "name"
    t.integer "kind", null: false, default: 0
    t.boolean "required", null: false, default: false
    t.timestamps
  end

  create_table "custom_values" do |t|
    t.integer "custom_field_id", null: false, index: true
    t.integer "issue_id", null: false, index: true
    t.string "value"
    t.timestamps
  end

  create_table "activities" do |t|
    t.integer "project_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.integer "verb", null: false, default: 0
    t.string "summary"
    t.date "happened_on"
    t.timestamps
  end

  create_table "changesets" do |t|
    t.integer "project_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.string "revision"
    t.text "message"
    t.date "committed_on"
    t.timestamps
  end

  create_table "file_changes" do |t|
    t.integer "changeset_id", null: false, index: true
    t.string "path"
    t.integer "additions"
    t.integer "deletions"
    t.timestamps
  end

  create_table "wiki_pages" do |t|
    t.integer "project_id", null: false, index: true
    t.string "title"
    t.text "body"
    t.timestamps
  end

  create_table "wiki_revisions" do |t|
    t.integer "wiki_page_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.integer "number"
    t.text "body"
    t.timestamps
  end

  create_table "forums" do |t|
    t.integer "project_id", null: false, index: true
    t.string "name"
    t.text "description"
    t.timestamps
  end

  create_table "topics" do |t|
    t.integer "forum_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.string "title"
    t.boolean "sticky", null: false, default: false
    t.timestamps
  end

  create_table "messages" do |t|
    t.integer "topic_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.text "body"
    t.timestamps
  end

  create_table "news_items" do |t|
    t.integer "project_id", null: false, index: true
    t.integer "user_id", null: false, index: true
    t.string "title"
    t.text "body"
    t.date "published_on"
    t.timestamps
  end

  create_table "documents" do |t|
    t.integer "project_id", null: false, index: true
    t.integer "category_id", null: false, index: true
    t.string "title"
    t.text "body"
    t.timestamps
  end

  create_table "saved_queries" do |t|
    t.integer "user_id", null: false, index: true
    t.string "name"
    t.string "filter"
    t.boolean "shared", null: false, default: false
    t.timestamps
  end

  create_table "notifications" do |t|
    t.integer "user_id", null: false, index: true
    t.integer "issue_id", null: false, index: true
    t.string "text"
    t.boolean "seen", null: false, default: false
    t.timestamps
  end

  create_table "customers" do |t|
    t.integer "organization_id", null: false, index: true
    t.string "name"
    t.string "email"
    t.string "city"
    t.text "notes"
    t.timestamps
  end

  create_table "contacts" do |t|
    t.integer "customer_id", null: false, index: true
    t.string "name"
    t.string "email"
    t.string "phone"
    t.timestamps
  end

  create_table "products" do |t|
    t.string "name"
    t.string "sku"
    t.text "description"
    t.decimal "price", precision: 10, scale: 2
    t.integer "stock"
    t.timestamps
  end

  create_table "invoices" do |t|
    t.integer "customer_id", null: false, index: true
    t.string "number"
    t.integer "state", null: false, default: 0
    t.date "issued_on"
    t.date "due_on"
    t.timestamps
  end

  create_table "invoice_lines" do |t|
    t.integer "invoice_id", null: false, index: true
    t.integer "product_id", null: false, index: true
    t.string "text"
    t.integer "quantity"
    t.decimal "price", precision: 10, scale: 2
    t.timestamps
  end

  create_table "settings" do |t|
    t.string "name"
    t.text "value"
    t.timestamps
  end
end
